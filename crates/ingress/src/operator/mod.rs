//! The operator: IngressControllers become Deployments, Services and DNS records; their conditions tell how it went.
