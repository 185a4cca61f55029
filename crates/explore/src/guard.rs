//! Which requests are let in, and what every answer carries.
//!
//! The image is hostile, and so is every other page in the browser. A page elsewhere can make the browser
//! send requests here under a name that leads to 127.0.0.1 (DNS rebinding): then `Host` is that name.
//! `Origin` and `Sec-Fetch-Site` betray requests of other pages, and only the page that the user opened
//! has the token.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};

/// The header with the token.
pub(crate) const TOKEN: &str = "x-eraseblock-token";
/// The names by which this machine may be addressed.
const NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
/// What the page may do: run its own modules, and ask this server.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

/// What a request must satisfy.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    hosts: Vec<String>,
    origins: Vec<String>,
    token: String,
}

impl Rules {
    pub(crate) fn new(port: u16, token: &str) -> Self {
        let hosts: Vec<String> = NAMES.iter().map(|name| format!("{name}:{port}")).collect();
        let origins = hosts.iter().map(|host| format!("http://{host}")).collect();
        Self { hosts, origins, token: token.to_owned() }
    }

    /// Lets a request in, or returns the status that refuses it.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), StatusCode> {
        let headers = &request.headers;
        // First of all: under a foreign name every other answer would be readable by a foreign page.
        let is_ours = |host: &str| self.hosts.iter().any(|own| own == host);
        let authority = request.uri.authority();
        if !only(headers, &HOST).is_some_and(is_ours)
            || authority.is_some_and(|authority| !is_ours(authority.as_str()))
        {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        if request.method != Method::GET && request.method != Method::HEAD {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN);
            if !origin.is_some_and(|origin| self.origins.iter().any(|own| own == origin)) {
                return Err(StatusCode::FORBIDDEN);
            }
        }
        let path = request.uri.path();
        if is_foreign(headers) && !(path == "/" && is_navigation(headers)) {
            return Err(StatusCode::FORBIDDEN);
        }
        let is_known = || {
            only(headers, &HeaderName::from_static(TOKEN)).is_some_and(|token| self.is_token(token))
        };
        if path.starts_with("/api") && !is_known() {
            return Err(StatusCode::UNAUTHORIZED);
        }
        Ok(())
    }

    /// Compares in a time that does not depend on where the first difference is.
    fn is_token(&self, token: &str) -> bool {
        let pairs = token.bytes().zip(self.token.bytes());
        let difference = pairs.fold(0, |difference, (one, other)| difference | (one ^ other));
        token.len() == self.token.len() && difference == 0
    }
}

/// Returns the value of a header that occurs once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// Returns whether the browser says that another site sent the request.
fn is_foreign(headers: &HeaderMap) -> bool {
    let site = HeaderName::from_static("sec-fetch-site");
    headers.contains_key(&site) && !matches!(only(headers, &site), Some("same-origin" | "none"))
}

/// Returns whether the request opens the page in a window of its own. The page itself holds nothing of the
/// image, and the user opens it from a file, which is another site.
fn is_navigation(headers: &HeaderMap) -> bool {
    let value = |name: &'static str| only(headers, &HeaderName::from_static(name));
    value("sec-fetch-mode") == Some("navigate") && value("sec-fetch-dest") == Some("document")
}

/// Adds what every answer carries, refusals included.
pub(crate) fn seal(headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
