//! Errors of a measurement: messages for people.

use std::fmt::Display;
use std::path::Path;

/// What a measurement gives, or why it could not be made.
pub type Outcome<T = ()> = Result<T, String>;

/// Names the file in an error.
pub fn at<E: Display>(path: &Path) -> impl FnOnce(E) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}

/// The message of an error.
pub fn say(error: impl Display) -> String {
    error.to_string()
}
