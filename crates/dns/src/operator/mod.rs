//! The operator: the DNS resource becomes a Corefile and the objects that serve it.
