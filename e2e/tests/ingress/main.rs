//! `twinstack router` with a real HAProxy, and the ingress operator.

mod hardening;
mod lab;
mod operator;
mod router;
