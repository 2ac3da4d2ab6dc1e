//! XML text.

mod build;
mod decode;
mod infer;
mod options;
mod tree;
mod variant;
mod write;
mod xpath;
mod xpath_functions;

use super::Functions;

pub(super) fn register(functions: &mut Functions) {
    build::register(functions);
    xpath_functions::register(functions);
}
