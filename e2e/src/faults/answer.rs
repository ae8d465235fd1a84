//! What the API server, or what lies before it, may answer instead of doing what it was asked for.

use std::{
    io::{Error, ErrorKind},
    time::Duration,
};

use http::{Response, header};
use serde_json::json;
use tower::BoxError;

use super::layer::{Body, whole};

/// One wrong answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// 409: somebody else wrote at the same moment.
    Conflict,
    /// 422: an admission rule that is about to go, say.
    Invalid,
    /// 429, with the seconds after which to come again.
    TooMany,
    /// 500.
    Internal,
    /// 503.
    Unavailable,
    /// 504.
    GatewayTimeout,
    /// No answer in time.
    TimedOut,
    /// The connection breaks.
    Reset,
}

/// How long a client is told to stay away.
pub const RETRY_AFTER: Duration = Duration::from_secs(2);

impl Answer {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Conflict,
        Self::Invalid,
        Self::TooMany,
        Self::Internal,
        Self::Unavailable,
        Self::GatewayTimeout,
        Self::TimedOut,
        Self::Reset,
    ];

    /// The name in a case's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conflict => "409",
            Self::Invalid => "422",
            Self::TooMany => "429",
            Self::Internal => "500",
            Self::Unavailable => "503",
            Self::GatewayTimeout => "504",
            Self::TimedOut => "timeout",
            Self::Reset => "reset",
        }
    }

    /// Whether it can follow a request that was carried out all the same.
    pub fn after_the_deed(self) -> bool {
        !matches!(self, Self::Conflict | Self::Invalid | Self::TooMany)
    }

    /// Whether a read can meet it.
    pub fn of_reads(self) -> bool {
        !matches!(self, Self::Conflict | Self::Invalid)
    }

    /// The answer as a client meets it.
    ///
    /// # Errors
    /// Where no answer comes at all.
    pub async fn give(self) -> Result<Response<Body>, BoxError> {
        let (code, reason, message) = match self {
            Self::Conflict => (409, "Conflict", "the object has been modified"),
            Self::Invalid => (422, "Invalid", "refused by a rule"),
            Self::TooMany => (429, "TooManyRequests", "the server has received too many requests"),
            Self::Internal => (500, "InternalError", "etcdserver: leader changed"),
            Self::Unavailable => (503, "ServiceUnavailable", "apiserver is shutting down"),
            Self::GatewayTimeout => (504, "Timeout", "the request did not complete in time"),
            Self::TimedOut => {
                tokio::time::sleep(Duration::from_millis(300)).await;
                return Err(Error::new(ErrorKind::TimedOut, "no answer in time").into());
            }
            Self::Reset => return Err(Error::from(ErrorKind::ConnectionReset).into()),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": reason, "message": message,
        });
        let mut response = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
        if self == Self::TooMany {
            status["details"] = json!({ "retryAfterSeconds": RETRY_AFTER.as_secs() });
            response = response.header(header::RETRY_AFTER, RETRY_AFTER.as_secs());
        }
        Ok(response.body(whole(status.to_string()))?)
    }
}
