//! Temporary views of frames.

use millstream_core::{Error, Result};
use spark_connect_proto::CreateDataFrameViewCommand;

use super::Session;
use crate::analyzer::Leaf;
use crate::connect::catalog::parts;
use crate::connect::errors::incomplete;

/// Names a frame. The view keeps the plan as it is now: names in it that are given to something else later do not change it.
///
/// # Errors
/// `TEMP_TABLE_OR_VIEW_ALREADY_EXISTS` unless it replaces; `_LEGACY_ERROR_TEMP_1321` for names that no view can have.
pub(super) async fn create(session: &Session, command: CreateDataFrameViewCommand) -> Result<()> {
    let input = command.input.as_ref().ok_or_else(|| incomplete("CreateDataFrameViewCommand.input"))?;
    let name = view_name(&command.name)?;
    let analyzed = session.analyze(input).await?;
    define(session, &name, Leaf::Analyzed(analyzed), command.is_global, command.replace)
}

/// Names a relation.
///
/// # Errors
/// `TEMP_TABLE_OR_VIEW_ALREADY_EXISTS` unless it replaces.
pub(in crate::connect) fn define(session: &Session, name: &str, leaf: Leaf, global: bool, replace: bool) -> Result<()> {
    let exists = || {
        let message =
            format!("Cannot create the temporary view `{name}` because it already exists: choose a different name, or replace it.");
        Err(Error::invalid("TEMP_TABLE_OR_VIEW_ALREADY_EXISTS", message).with_sqlstate("42P07"))
    };
    if global {
        let mut views = session.global_views().write();
        if !replace && views.contains_key(&name.to_lowercase()) {
            return exists();
        }
        views.insert(name.to_lowercase(), leaf);
    } else {
        if !replace && session.view(name).is_some() {
            return exists();
        }
        session.set_view(name, leaf);
    }
    Ok(())
}

fn view_name(text: &str) -> Result<String> {
    match parts(text).as_deref() {
        Ok([name]) => Ok(name.clone()),
        _ => Err(Error::invalid("_LEGACY_ERROR_TEMP_1321", format!("Invalid view name: {text}."))),
    }
}
