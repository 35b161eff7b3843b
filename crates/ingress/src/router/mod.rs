//! The router: Routes and Ingresses become the configuration of HAProxy.
