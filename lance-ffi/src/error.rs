//! The one error type of the shim: a code of the C header and a message.

use std::fmt;

pub use crate::abi::{
    LANCE_FFI_ALREADY_EXISTS as ALREADY_EXISTS, LANCE_FFI_CANCELLED as CANCELLED, LANCE_FFI_CONFLICT as CONFLICT,
    LANCE_FFI_CORRUPT as CORRUPT, LANCE_FFI_INTERNAL as INTERNAL, LANCE_FFI_INVALID_ARGUMENT as INVALID_ARGUMENT,
    LANCE_FFI_IO as IO, LANCE_FFI_NOT_FOUND as NOT_FOUND, LANCE_FFI_OK as OK, LANCE_FFI_PANIC as PANIC,
    LANCE_FFI_UNSUPPORTED as UNSUPPORTED, LANCE_FFI_VERSION_GONE as VERSION_GONE,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: i32,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(INVALID_ARGUMENT, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(NOT_FOUND, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(UNSUPPORTED, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, message)
    }

    pub fn cancelled() -> Self {
        Self::new(CANCELLED, "the call was cancelled")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Lance writes the source location into its errors, nested ones included; it means nothing to a Go user, changes with
/// every release and shows where the library was built.
fn without_location(message: String) -> String {
    let mut out = String::with_capacity(message.len());
    for (at, part) in message.split(", ").enumerate() {
        let place = part.trim_start_matches("location: ");
        let end = place.find(char::is_whitespace).unwrap_or(place.len());
        if at > 0 && place[..end].contains(".rs:") {
            out.push_str(&place[end..]);
            continue;
        }
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(part);
    }
    out
}

fn one_line(message: String) -> String {
    if !message.contains('\n') {
        return message;
    }
    message
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn code_of(error: &lance::Error) -> i32 {
    use lance::Error as E;
    match error.find_root() {
        E::InvalidInput { .. }
        | E::FieldNotFound { .. }
        | E::SchemaMismatch { .. }
        | E::Schema { .. }
        | E::InvalidTableLocation { .. }
        | E::InvalidRef { .. } => INVALID_ARGUMENT,
        E::DatasetAlreadyExists { .. } => ALREADY_EXISTS,
        E::DatasetNotFound { .. }
        | E::NotFound { .. }
        | E::IndexNotFound { .. }
        | E::RefNotFound { .. }
        | E::VersionNotFound { .. } => NOT_FOUND,
        E::CorruptFile { .. } => CORRUPT,
        E::NotSupported { .. } => UNSUPPORTED,
        E::CommitConflict { .. }
        | E::IncompatibleTransaction { .. }
        | E::RetryableCommitConflict { .. }
        | E::TooMuchWriteContention { .. }
        | E::RefConflict { .. } => CONFLICT,
        E::IO { source, .. } => nested_code(source.as_ref()).unwrap_or(IO),
        E::Namespace { source, .. } => nested_code(source.as_ref()).unwrap_or(IO),
        E::Wrapped { error, .. } => nested_code(error.as_ref()).unwrap_or(INTERNAL),
        E::External { source } => nested_code(source.as_ref()).unwrap_or(INTERNAL),
        E::Timeout { .. } => IO,
        _ => INTERNAL,
    }
}

/// The code of the first error in the chain that tells one.
fn nested_code(source: &(dyn std::error::Error + 'static)) -> Option<i32> {
    let mut next = Some(source);
    while let Some(error) = next {
        if let Some(object_store::Error::NotFound { .. }) = error.downcast_ref() {
            return Some(NOT_FOUND);
        }
        if let Some(lance) = error.downcast_ref::<lance::Error>() {
            return Some(code_of(lance));
        }
        next = error.source();
    }
    None
}

impl From<lance::Error> for Error {
    fn from(error: lance::Error) -> Self {
        Self::new(code_of(&error), one_line(without_location(error.to_string())))
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::from(lance::Error::from(error))
    }
}

impl From<datafusion::error::DataFusionError> for Error {
    fn from(error: datafusion::error::DataFusionError) -> Self {
        Self::from(lance::Error::from(error))
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::invalid(format!("request is not the JSON expected here: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_kind_of_lance_error() {
        let error = Error::from(lance::Error::invalid_input("k must be positive"));
        assert_eq!(error.code, INVALID_ARGUMENT);
        assert!(error.message.contains("k must be positive"));
        assert!(!error.message.contains(".rs:"), "{}", error.message);
    }

    #[test]
    fn a_message_with_commas_keeps_them() {
        assert_eq!(without_location("a, b, c".into()), "a, b, c");
        assert_eq!(without_location("a, b, /x/y.rs:1:2".into()), "a, b");
        assert_eq!(
            without_location("a: b, /x/y.rs:1:2 c, location: /z.rs:3:4".into()),
            "a: b c"
        );
    }
}
