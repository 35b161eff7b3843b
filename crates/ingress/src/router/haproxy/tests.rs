//! Generated configurations, checked by HAProxy itself.
