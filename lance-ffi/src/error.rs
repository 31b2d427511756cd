//! The one error type of the shim: a code of the C header and a message.

use std::fmt;

pub const OK: i32 = 0;
pub const INVALID_ARGUMENT: i32 = 1;
pub const NOT_FOUND: i32 = 2;
pub const VERSION_GONE: i32 = 3;
pub const CONFLICT: i32 = 4;
pub const IO: i32 = 5;
pub const CORRUPT: i32 = 6;
pub const UNSUPPORTED: i32 = 7;
pub const CANCELLED: i32 = 8;
pub const PANIC: i32 = 9;
pub const INTERNAL: i32 = 10;
pub const ALREADY_EXISTS: i32 = 11;

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

/// Lance appends the source location of the error; it means nothing to a Go user and changes with every release.
fn without_location(message: String) -> String {
    match message.rfind(", ") {
        Some(at)
            if message[at..].contains(".rs:")
                && !message[at + 2..].trim_start_matches("location: ").contains(' ') =>
        {
            message[..at].to_string()
        }
        _ => message,
    }
}

fn code_of(error: &lance::Error) -> i32 {
    use lance::Error as E;
    match error {
        E::InvalidInput { .. }
        | E::SchemaMismatch { .. }
        | E::Schema { .. }
        | E::InvalidTableLocation { .. }
        | E::InvalidRef { .. } => INVALID_ARGUMENT,
        E::DatasetAlreadyExists { .. } => ALREADY_EXISTS,
        E::DatasetNotFound { .. }
        | E::NotFound { .. }
        | E::IndexNotFound { .. }
        | E::RefNotFound { .. } => NOT_FOUND,
        E::CorruptFile { .. } => CORRUPT,
        E::NotSupported { .. } => UNSUPPORTED,
        E::CommitConflict { .. }
        | E::IncompatibleTransaction { .. }
        | E::RetryableCommitConflict { .. }
        | E::TooMuchWriteContention { .. }
        | E::RefConflict { .. } => CONFLICT,
        E::IO { source, .. } => source
            .downcast_ref::<lance::Error>()
            .map(code_of)
            .unwrap_or_else(|| io_code(source.as_ref())),
        E::Wrapped { error, .. } => error
            .downcast_ref::<lance::Error>()
            .map(code_of)
            .unwrap_or(INTERNAL),
        _ => INTERNAL,
    }
}

fn io_code(source: &(dyn std::error::Error + 'static)) -> i32 {
    let mut next = Some(source);
    while let Some(error) = next {
        if let Some(object_store::Error::NotFound { .. }) = error.downcast_ref() {
            return NOT_FOUND;
        }
        if let Some(lance) = error.downcast_ref::<lance::Error>() {
            return code_of(lance);
        }
        next = error.source();
    }
    IO
}

impl From<lance::Error> for Error {
    fn from(error: lance::Error) -> Self {
        Self::new(code_of(&error), without_location(error.to_string()))
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
    }
}
