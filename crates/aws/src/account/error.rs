//! Why AWS did not do something, as far as it matters for what happens next.

use std::fmt;

/// What kind of thing was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load balancer, of either API.
    LoadBalancer,
    Listener,
    TargetGroup,
    /// A target of a target group, or an instance of a classic load balancer.
    Target,
    SecurityGroup,
    /// A rule of a security group.
    Rule,
    Subnet,
    Instance,
    Vpc,
    /// A route table or a route of one.
    Route,
    /// An address allocation.
    Address,
    Certificate,
    /// A policy of a classic load balancer.
    Policy,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LoadBalancer => "load balancer",
            Self::Listener => "listener",
            Self::TargetGroup => "target group",
            Self::Target => "target",
            Self::SecurityGroup => "security group",
            Self::Rule => "security group rule",
            Self::Subnet => "subnet",
            Self::Instance => "instance",
            Self::Vpc => "VPC",
            Self::Route => "route",
            Self::Address => "address allocation",
            Self::Certificate => "certificate",
            Self::Policy => "policy",
        })
    }
}

/// Why AWS did not do something. `message` is always AWS's own, without credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AwsError {
    /// What the call names is not there. Look again, then decide anew.
    #[error("{kind} not found: {message}")]
    NotFound {
        kind: Kind,
        /// AWS's message.
        message: String,
    },
    /// There is one already (`Duplicate*`, `*AlreadyExists`, `InvalidPermission.Duplicate`). Look again, then decide anew.
    #[error("exists already: {message}")]
    Duplicate {
        /// AWS's message.
        message: String,
    },
    /// Something still uses it (`ResourceInUse`, `DependencyViolation`, `InvalidGroup.InUse`). Try again later.
    #[error("still in use: {message}")]
    InUse {
        /// AWS's message.
        message: String,
    },
    /// Too many calls (`Throttling`, `RequestLimitExceeded`, ...), after the client's own retries.
    #[error("throttled by AWS: {message}")]
    Throttled {
        /// AWS's message.
        message: String,
    },
    /// A quota is used up (`*LimitExceeded`, `TooMany*`).
    #[error("an AWS limit is reached: {message}")]
    LimitExceeded {
        /// AWS's code.
        code: String,
        /// AWS's message.
        message: String,
    },
    /// The permission is missing.
    #[error("not permitted: the controller's role needs {action}: {message}")]
    Unauthorized {
        /// The IAM action, such as `ec2:CreateSecurityGroup`.
        action: String,
        /// AWS's message.
        message: String,
    },
    /// AWS does not accept what was asked for, and will not the next time.
    #[error("refused by AWS ({code}): {message}")]
    Invalid {
        /// AWS's code.
        code: String,
        /// AWS's message.
        message: String,
    },
    /// No answer: whether the call took effect is not known.
    #[error("no answer from AWS to {action}: {message}")]
    Timeout {
        /// The call.
        action: String,
        /// What happened.
        message: String,
    },
    /// Anything else.
    #[error("AWS answers {code}: {message} (request {request_id})")]
    Other {
        /// AWS's code, or the HTTP status.
        code: String,
        /// AWS's message.
        message: String,
        /// AWS's id of the request.
        request_id: String,
    },
}

impl AwsError {
    /// Whether this is about something that is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether this is about something that is still used.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }

    /// Whether an instance cannot be a target: it has stopped, or has no address of the family.
    pub fn is_invalid_target(&self) -> bool {
        matches!(self, Self::Invalid { code, .. } if code == "InvalidTarget")
    }

    /// Whether this is about something that exists already.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate { .. })
    }
}
