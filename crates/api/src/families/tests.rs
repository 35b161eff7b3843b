//! Tables of the rules, for every shape of cluster.
