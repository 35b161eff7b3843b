//! The file of `--authentication-config`: AuthenticationConfiguration with its issuers and where nobody needs credentials. The flags
//! `--oidc-*` are one issuer of the same sort.

use super::{
    FileMistakes, called,
    issuer::{ClaimRule, Issuer, Mapping, Oidc},
    remote::Remote,
};
use access::authn::{Anonymous, jwt::ALGORITHMS};
use parking_lot::Mutex;
use schema::cel::{Makes, Program, Scope};
use serde::Deserialize;
use std::collections::BTreeSet;

/// What the file says.
pub struct AuthenticationConfiguration {
    pub(super) issuers: Vec<Issuer>,
    /// Where requests without credentials are let in, if the file says it.
    pub anonymous: Option<Anonymous>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    jwt: Vec<RawJwt>,
    anonymous: Option<RawAnonymous>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAnonymous {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    conditions: Vec<RawPath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPath {
    path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawJwt {
    issuer: RawIssuer,
    #[serde(default)]
    claim_validation_rules: Vec<RawClaimRule>,
    claim_mappings: RawMappings,
    #[serde(default)]
    user_validation_rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawIssuer {
    url: String,
    #[serde(rename = "discoveryURL")]
    discovery_url: Option<String>,
    certificate_authority: Option<String>,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: String,
    #[serde(default)]
    egress_selector_type: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawClaimRule {
    #[serde(default)]
    claim: String,
    #[serde(default)]
    required_value: String,
    #[serde(default)]
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    expression: String,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMappings {
    username: RawMapping,
    groups: Option<RawMapping>,
    uid: Option<RawMapping>,
    #[serde(default)]
    extra: Vec<RawExtra>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMapping {
    #[serde(default)]
    claim: String,
    prefix: Option<String>,
    #[serde(default)]
    expression: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawExtra {
    key: String,
    value_expression: String,
}

impl AuthenticationConfiguration {
    /// Reads the text and names all that is wrong with it.
    pub fn parse(text: &str) -> Result<Self, FileMistakes> {
        let Raw { api_version, kind, jwt, anonymous } =
            serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        let mut mistakes = Vec::new();
        called(&api_version, &kind, "AuthenticationConfiguration", &mut mistakes);
        let mut urls = BTreeSet::new();
        let mut issuers = Vec::new();
        for (index, jwt) in jwt.into_iter().enumerate() {
            let at = format!("jwt[{index}]");
            if !urls.insert(jwt.issuer.url.clone()) {
                mistakes.push(format!("{at}.issuer.url: {:?} stands twice", jwt.issuer.url));
            }
            issuers.extend(issuer(&at, jwt, &mut mistakes));
        }
        let anonymous = anonymous.map(|RawAnonymous { enabled, conditions }| match (enabled, conditions.is_empty()) {
            (true, true) => Anonymous::Everywhere,
            (true, false) => Anonymous::Paths(conditions.into_iter().map(|condition| condition.path).collect()),
            (false, empty) => {
                if !empty {
                    mistakes.push("anonymous.conditions: nobody is let in while enabled is false".to_owned());
                }
                Anonymous::Nowhere
            }
        });
        if mistakes.is_empty() { Ok(Self { issuers, anonymous }) } else { Err(FileMistakes(mistakes)) }
    }
}

impl AuthenticationConfiguration {
    /// Refuses issuers of this name: the server's own tokens are not for others to vouch for.
    pub fn except(self, own: &[String]) -> Result<Self, FileMistakes> {
        let mistakes: Vec<String> = (self.issuers.iter().enumerate())
            .filter(|(_, issuer)| own.contains(&issuer.url))
            .map(|(index, issuer)| {
                format!("jwt[{index}].issuer.url: {:?} is the issuer of this server's own tokens", issuer.url)
            })
            .collect();
        if mistakes.is_empty() { Ok(self) } else { Err(FileMistakes(mistakes)) }
    }

    /// Refuses another rule about requests without credentials than the one the server began with, as upstream does.
    pub fn keeps(self, anonymous: Option<&Anonymous>) -> Result<Self, FileMistakes> {
        match self.anonymous.as_ref() == anonymous {
            true => Ok(self),
            false => Err("anonymous: changed from initial configuration file".to_owned().into()),
        }
    }
}

fn issuer(at: &str, jwt: RawJwt, mistakes: &mut Vec<String>) -> Option<Issuer> {
    let before = mistakes.len();
    let RawJwt { issuer, claim_validation_rules, claim_mappings, user_validation_rules } = jwt;
    for (field, url) in [("url", Some(&issuer.url)), ("discoveryURL", issuer.discovery_url.as_ref())] {
        let wrong = url.and_then(|url| Remote::new(url, issuer.certificate_authority.as_deref()).err());
        mistakes.extend(wrong.map(|why| format!("{at}.issuer.{field}: {why}")));
    }
    match (issuer.audiences.len(), issuer.audience_match_policy.as_str()) {
        (0, _) => mistakes.push(format!("{at}.issuer.audiences: at least one is needed")),
        (1, "" | "MatchAny") | (_, "MatchAny") => {}
        (_, policy) => mistakes.push(format!(
            "{at}.issuer.audienceMatchPolicy: {policy:?} is not accepted; accepted: MatchAny, which several audiences need"
        )),
    }
    if !matches!(issuer.egress_selector_type.as_str(), "" | "cluster" | "controlplane") {
        mistakes.push(format!("{at}.issuer.egressSelectorType: accepted: cluster, controlplane"));
    }
    let mut compile = |place: String, name: &'static str, text: &str, makes: Makes| {
        let compiled = Program::compile(text, &Scope::anything(name), makes);
        compiled.map_err(|why| mistakes.push(format!("{at}.{place}: {why}"))).ok()
    };
    let mut rules = Vec::new();
    let mut unclear = Vec::new();
    for (index, rule) in claim_validation_rules.into_iter().enumerate() {
        let place = format!("claimValidationRules[{index}]");
        let RawClaimRule { claim, required_value: value, expression, message } = rule;
        match (claim.is_empty(), expression.is_empty()) {
            (false, true) => rules.push(ClaimRule::Required { claim, value }),
            (true, false) => {
                let program = compile(format!("{place}.expression"), "claims", &expression, Makes::Bool);
                rules.extend(program.map(|program| ClaimRule::Expression { program, message }));
            }
            _ => unclear.push(format!("{at}.{place}: give one of claim and expression")),
        }
    }
    let mut mapping = |field: &str, raw: RawMapping, prefixed: bool| -> Option<Mapping> {
        let place = format!("claimMappings.{field}");
        match (raw.claim.is_empty(), raw.expression.is_empty()) {
            (true, false) if raw.prefix.is_none() => {
                let program = compile(format!("{place}.expression"), "claims", &raw.expression, Makes::Anything);
                program.map(Mapping::Expression)
            }
            (false, true) if !prefixed || raw.prefix.is_some() => {
                Some(Mapping::Claim { name: raw.claim, prefix: raw.prefix.unwrap_or_default() })
            }
            (false, true) => {
                unclear.push(format!("{at}.{place}.prefix: is needed beside claim, \"\" for none"));
                None
            }
            _ => {
                unclear.push(format!("{at}.{place}: give claim with prefix, or expression alone"));
                None
            }
        }
    };
    let RawMappings { username, groups, uid, extra } = claim_mappings;
    let username = mapping("username", username, true);
    let groups = groups.and_then(|groups| mapping("groups", groups, true));
    let uid = uid.and_then(|uid| mapping("uid", uid, false));
    let mut more = Vec::new();
    for (index, RawExtra { key, value_expression }) in extra.into_iter().enumerate() {
        let place = format!("claimMappings.extra[{index}]");
        if !key.contains('/') || key != key.to_lowercase() {
            unclear.push(format!(
                "{at}.{place}.key: {key:?} is not accepted; accepted: a domain and a path in lower case"
            ));
        }
        let program = compile(format!("{place}.valueExpression"), "claims", &value_expression, Makes::Anything);
        more.extend(program.map(|program| (key, program)));
    }
    let mut user_rules = Vec::new();
    for (index, RawRule { expression, message }) in user_validation_rules.into_iter().enumerate() {
        let place = format!("userValidationRules[{index}].expression");
        user_rules.extend(compile(place, "user", &expression, Makes::Bool).map(|program| (program, message)));
    }
    mistakes.extend(unclear);
    let username = username.filter(|_| mistakes.len() == before)?;
    Some(Issuer {
        url: issuer.url,
        discovery_url: issuer.discovery_url,
        authorities: issuer.certificate_authority,
        audiences: issuer.audiences,
        algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
        username,
        groups,
        uid,
        extra: more,
        claim_rules: rules,
        user_rules,
        keys: Mutex::default(),
    })
}

/// One issuer as the flags describe it.
pub fn oidc(settings: &Oidc) -> Result<AuthenticationConfiguration, FileMistakes> {
    let mut mistakes = Vec::new();
    let authorities = match &settings.ca_file {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| mistakes.push(format!("--oidc-ca-file {}: {error}", path.display())))
            .ok(),
        None => None,
    };
    if let Err(why) = Remote::new(&settings.issuer_url, authorities.as_deref()) {
        mistakes.push(format!("--oidc-issuer-url: {why}"));
    }
    if settings.client_id.is_empty() {
        mistakes.push("--oidc-client-id: is needed beside --oidc-issuer-url".to_owned());
    }
    for algorithm in settings.signing_algs.iter().filter(|given| !ALGORITHMS.contains(&given.as_str())) {
        mistakes
            .push(format!("--oidc-signing-algs: {algorithm:?} is not accepted; accepted: {}", ALGORITHMS.join(", ")));
    }
    if !mistakes.is_empty() {
        return Err(FileMistakes(mistakes));
    }
    let prefix = match (settings.username_prefix.as_str(), settings.username_claim.as_str()) {
        ("-", _) | ("", "email") => String::new(),
        ("", _) => format!("{}#", settings.issuer_url),
        (given, _) => given.to_owned(),
    };
    let groups = (!settings.groups_claim.is_empty())
        .then(|| Mapping::Claim { name: settings.groups_claim.clone(), prefix: settings.groups_prefix.clone() });
    let required = settings.required_claims.iter();
    let required = required.map(|(claim, value)| ClaimRule::Required { claim: claim.clone(), value: value.clone() });
    let issuer = Issuer {
        url: settings.issuer_url.clone(),
        discovery_url: None,
        authorities,
        audiences: vec![settings.client_id.clone()],
        algorithms: settings.signing_algs.clone(),
        username: Mapping::Claim { name: settings.username_claim.clone(), prefix },
        groups,
        uid: None,
        extra: Vec::new(),
        claim_rules: required.collect(),
        user_rules: Vec::new(),
        keys: Mutex::default(),
    };
    Ok(AuthenticationConfiguration { issuers: vec![issuer], anonymous: None })
}
