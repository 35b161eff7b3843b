//! The parameters that operations take, in paths and in queries.

/// A path or query parameter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `string`, `boolean`, `integer`.
    pub(super) kind: &'static str,
    pub(super) description: &'static str,
    pub(super) in_path: bool,
}

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter { name, kind, description, in_path: false }
}

pub(super) const NAME: Parameter =
    Parameter { name: "name", kind: "string", description: "name of the object", in_path: true };
pub(super) const NAMESPACE: Parameter =
    Parameter { name: "namespace", description: "namespace of the objects", ..NAME };
pub(super) const PRETTY: Parameter = query("pretty", "string", "if true, the answer is indented");
const DRY_RUN: Parameter = query("dryRun", "string", "All: check everything, change nothing");
const FIELD_MANAGER: Parameter =
    query("fieldManager", "string", "who owns the fields that this request sets; required for apply");
const FIELD_VALIDATION: Parameter =
    query("fieldValidation", "string", "what unknown and repeated fields are: Ignore, Warn (default) or Strict");
const FORCE: Parameter = query("force", "boolean", "apply also takes over fields that others own");
pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];
pub(super) const DELETE: &[Parameter] = &[
    DRY_RUN,
    query("gracePeriodSeconds", "integer", "seconds until the object goes; 0 is at once"),
    query("orphanDependents", "boolean", "older form of propagationPolicy=Orphan"),
    query("propagationPolicy", "string", "what becomes of dependents: Orphan, Background or Foreground"),
];
/// Which objects of a collection are meant.
pub(super) const SELECT: &[Parameter] = &[
    query("continue", "string", "where the previous page ended"),
    query("fieldSelector", "string", "only objects with these fields"),
    query("labelSelector", "string", "only objects with these labels"),
    query("limit", "integer", "at most this many objects a page"),
    query("resourceVersion", "string", "the version to read or to watch from"),
    query("resourceVersionMatch", "string", "how resourceVersion is meant: Exact or NotOlderThan"),
    query("sendInitialEvents", "boolean", "a watch starts with what is there"),
    query("timeoutSeconds", "integer", "when a list or watch ends at the latest"),
];
/// What a list may be asked beyond that.
pub(super) const WATCH: &[Parameter] = &[
    query("allowWatchBookmarks", "boolean", "a watch may also tell how far it is"),
    query("watch", "boolean", "tell changes instead of listing"),
];

const CONTAINER: Parameter = query("container", "string", "which container, where there are several");
const STDIN: Parameter = query("stdin", "boolean", "send standard input");
const STDOUT: Parameter = query("stdout", "boolean", "receive standard output");
const STDERR: Parameter = query("stderr", "boolean", "receive standard error");
const TTY: Parameter = query("tty", "boolean", "the program has a terminal");

/// What a stream of a Pod or the way through a proxy takes.
pub(super) fn of_stream(subresource: &str) -> Vec<Parameter> {
    match subresource {
        "attach" => vec![CONTAINER, STDERR, STDIN, STDOUT, TTY],
        "exec" => vec![
            query("command", "string", "the program and its arguments, one each"),
            CONTAINER,
            STDERR,
            STDIN,
            STDOUT,
            TTY,
        ],
        "log" => vec![
            CONTAINER,
            query("follow", "boolean", "go on with what is written later"),
            query("insecureSkipTLSVerifyBackend", "boolean", "do not check the certificate of the Node"),
            query("limitBytes", "integer", "at most this many bytes"),
            query("previous", "boolean", "of the container that ran before this one"),
            query("sinceSeconds", "integer", "only what is not older"),
            query("stream", "string", "All, Stdout or Stderr"),
            query("tailLines", "integer", "only this many lines from the end"),
            query("timestamps", "boolean", "each line begins with its time"),
        ],
        "portforward" => vec![query("ports", "integer", "the ports that connections are for")],
        "proxy" => vec![query("path", "string", "the path to ask for")],
        _ => vec![],
    }
}
