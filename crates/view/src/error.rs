//! Errors as the API shows them: what was wrong, where, and what to do.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;
use wirespan_store::StoreError;

/// Body of every response with an error status.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: Problem,
}

/// The error: its kind, its place in the request, and how to avoid it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// Stable code: `bad_query`, `not_found`, `store`, `busy`, `method`, `host`.
    pub code: &'static str,
    /// One sentence for people.
    pub message: String,
    /// Name of the wrong parameter; absent if no parameter is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub param: Option<String>,
    /// The part of the parameter's value that was not understood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Where that part begins in the value, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// HTTP status.
    pub status: StatusCode,
    /// Body.
    pub problem: Box<Problem>,
}

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        ApiError { status, problem: Box::new(Problem { code, message: message.into(), ..Problem::default() }) }
    }

    /// 400: a parameter, or a part of it, cannot be understood.
    pub fn bad_query(param: &str, message: impl Into<String>) -> Self {
        let mut e = Self::new(StatusCode::BAD_REQUEST, "bad_query", message);
        e.problem.param = Some(param.to_owned());
        e
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 503: too many queries at once.
    pub fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "too many queries run at once").hint("try again in a moment")
    }

    /// 500: the server itself failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
    }

    /// 405 and 403, which the guard answers.
    pub(crate) fn refused(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self::new(status, code, message)
    }

    /// Names the part of the parameter's value that is wrong; `offset` in characters.
    #[must_use]
    pub fn at(mut self, offset: usize, part: impl Into<String>) -> Self {
        self.problem.offset = Some(offset);
        self.problem.part = Some(part.into());
        self
    }

    /// Adds the correct form.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.problem.hint = Some(hint.into());
        self
    }
}

impl From<StoreError> for ApiError {
    fn from(e: StoreError) -> Self {
        match e {
            StoreError::Query(what) => Self::new(StatusCode::BAD_REQUEST, "bad_query", what),
            StoreError::Stopped(_) => Self::new(StatusCode::SERVICE_UNAVAILABLE, "store", e.to_string()),
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store", e.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status, Json(ErrorBody { error: *self.problem })).into_response()
    }
}
