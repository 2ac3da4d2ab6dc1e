//! `cargo xtask gen`: documents that are written from the code.

use std::process::Command;

use crate::process::{Outcome, cargo, fail, output, root, run, target_dir};

/// Writes the generated documents.
pub fn generate() -> Outcome {
    for (path, text) in documents()? {
        let path = root().join(path);
        std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Fails when a generated document is not what the code says.
pub fn up_to_date() -> Outcome {
    for (path, text) in documents()? {
        if std::fs::read_to_string(root().join(path)).ok().as_deref() != Some(text.as_str()) {
            return fail(format!("{path} is not what the code says: run `cargo xtask gen`"));
        }
    }
    Ok(())
}

fn documents() -> Outcome<Vec<(&'static str, String)>> {
    run(cargo().args(["build", "--workspace", "--locked", "--quiet"]))?;
    let options = output(Command::new(target_dir().join("debug/millstream")).arg("options"))?;
    Ok(vec![("docs/options.md", options)])
}
