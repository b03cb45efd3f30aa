//! One order: account, challenges, certificate (RFC 8555 §7).

use crate::answers::{Answers, ChallengeCertificates, SetChallenges};
use crate::certificate::{SigningRequest, Validity, of_challenge, wall_s};
use crate::config::{AcmeConfig, AcmeError, ChallengeKind};
use crate::folder::Folder;
use crate::http::DirectoryClient;
use crate::shared::{Proof, SPREAD_TIME, SharedItem, SharedOrders, write_proofs};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeHandle, ChallengeType, Error, Identifier,
    NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rustls::pki_types::CertificateDer;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// All that an order needs.
#[derive(Clone)]
pub(crate) struct OrderContext {
    pub(crate) config: Arc<AcmeConfig>,
    pub(crate) authorities: Arc<Vec<CertificateDer<'static>>>,
    pub(crate) folder: Folder,
    pub(crate) answers: Arc<Answers>,
    pub(crate) set_challenges: SetChallenges,
    /// Certificate and challenges of the other servers; `None`: it is alone.
    pub(crate) shared: Option<Arc<dyn SharedOrders>>,
}

/// Steps for the challenges of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// They are answered, and the directory may verify them.
    Both,
    /// They are answered, at first by this server.
    Answer,
    /// The directory may verify them.
    Ready,
}

/// Failure of an order.
#[derive(Debug)]
pub(crate) struct OrderError {
    pub(crate) why: AcmeError,
    /// Pause that the directory wants.
    pub(crate) retry_after: Option<Duration>,
}

impl OrderContext {
    /// Orders a certificate, and writes it into the folder.
    pub(crate) async fn order(self) -> Result<Validity, OrderError> {
        let client = DirectoryClient::new(&self.config.directory, &self.authorities)
            .map_err(|why| OrderError { why, retry_after: None })?;
        self.order_from(client).await
    }

    pub(crate) async fn order_from(&self, client: DirectoryClient) -> Result<Validity, OrderError> {
        let mut was_issued = false;
        self.order_by(&client, &mut was_issued).await.map_err(|failure| {
            let least = match failure.kind() {
                // Another order would be for the same names, of which directories issue few in a week.
                _ if was_issued => ISSUED_PAUSE,
                Some(RATE_LIMITED) => RATE_LIMITED_PAUSE,
                _ => Duration::ZERO,
            };
            let retry_after = client.take_retry_after().unwrap_or_default().max(least);
            OrderError { why: failure.text(), retry_after: Some(retry_after) }
        })
    }

    /// `was_issued` is true from the time on from which the directory issues a certificate.
    async fn order_by(&self, client: &DirectoryClient, was_issued: &mut bool) -> Result<Validity, Failure> {
        self.folder.check()?;
        let account = self.account(client).await?;
        let names: Vec<_> = self.config.domains.iter().cloned().map(Identifier::Dns).collect();
        let order = account.new_order(&NewOrder::new(&names)).await;
        if let Err(Error::Api(problem)) = &order
            && problem.r#type.as_deref() == Some(NO_ACCOUNT)
        {
            // The next try makes another one.
            self.folder.forget_account()?;
        }
        let mut order = order?;
        if order.state().authorizations.len() > self.config.domains.len() {
            return Err(
                AcmeError::new("the directory wants more authorizations than there are domains").into()
            );
        }
        let challenges = Challenges::start(self).await?;
        let result = self.prove(&mut order, challenges).await;
        result?;
        let request = SigningRequest::new(&self.config.domains)?;
        order.finalize_csr(request.der()).await?;
        let chain = order.poll_certificate(&POLL).await?;
        *was_issued = true;
        let (validity, file) = request.accept(&chain, &self.config.domains, wall_s())?;
        self.folder.set_certificate(file.as_bytes())?;
        Ok(validity)
    }

    /// The account of the folder, or a new one.
    async fn account(&self, client: &DirectoryClient) -> Result<Account, Failure> {
        let (directory, contact) = (&self.config.directory, self.config.contact.as_deref());
        let builder = Account::builder_with_http(Box::new(client.clone()));
        if let Some(stored) = self.folder.account()?.and_then(|json| credentials(&json, directory)) {
            return Ok(builder.from_credentials(stored).await?);
        }
        let contact: Vec<&str> = contact.into_iter().collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, stored) = builder.create(&new, directory.clone(), None).await?;
        let json = serde_json::to_vec(&stored).map_err(|why| AcmeError::new(why.to_string()))?;
        self.folder.set_account(&json)?;
        tracing::info!("[tls.acme] made an account at {directory}");
        Ok(account)
    }

    /// Answers the challenges of the order until the directory has verified them.
    async fn prove(&self, order: &mut Order, mut challenges: Challenges) -> Result<(), Failure> {
        match &self.shared {
            None => self.each_challenge(order, &mut challenges, Step::Both).await?,
            Some(shared) => {
                self.each_challenge(order, &mut challenges, Step::Answer).await?;
                if !challenges.proofs.is_empty() {
                    let text = write_proofs(&challenges.proofs);
                    waiting(shared, move |shared| shared.write(SharedItem::Challenges, text.as_bytes()))
                        .await?;
                    // The directory may ask any server of the name.
                    tokio::time::sleep(SPREAD_TIME).await;
                }
                self.each_challenge(order, &mut challenges, Step::Ready).await?;
            }
        }
        match order.poll_ready(&POLL).await? {
            OrderStatus::Ready | OrderStatus::Valid => Ok(()),
            _ => Err(refusal(order).await.into()),
        }
    }

    async fn each_challenge(
        &self,
        order: &mut Order,
        challenges: &mut Challenges,
        step: Step,
    ) -> Result<(), Failure> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            let Identifier::Dns(domain) = authorization.identifier().identifier.clone() else {
                return Err(
                    AcmeError::new("the directory wants a proof for something else than a domain").into()
                );
            };
            if !self.config.domains.contains(&domain.to_ascii_lowercase()) || authorization.wildcard {
                let text = format!("the directory wants a proof for {domain:?}, which was not ordered");
                return Err(AcmeError::new(text).into());
            }
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => {
                    return Err(
                        AcmeError::new(format!("the authorization for {domain} is {status:?}")).into()
                    );
                }
            }
            let (kind, name) = match self.config.challenge {
                ChallengeKind::Http01(_) => (ChallengeType::Http01, "http-01"),
                ChallengeKind::TlsAlpn01 => (ChallengeType::TlsAlpn01, "tls-alpn-01"),
            };
            let Some(mut challenge) = authorization.challenge(kind) else {
                let text =
                    format!("the directory offers no {name} for {domain}; set another [tls.acme] challenge");
                return Err(AcmeError::new(text).into());
            };
            if step != Step::Ready {
                challenges.answer(&domain, &challenge)?;
            }
            if step != Step::Answer {
                tracing::info!("[tls.acme] {domain}: the directory may verify {name} now");
                challenge.set_ready().await?;
            }
        }
        Ok(())
    }
}

/// The stored account, if it is one of this directory.
fn credentials(json: &[u8], directory: &str) -> Option<AccountCredentials> {
    let value: serde_json::Value = serde_json::from_slice(json).ok()?;
    if value.get("directory").and_then(serde_json::Value::as_str) != Some(directory) {
        return None;
    }
    serde_json::from_value(value).ok()
}

/// The reason why the directory did not accept a challenge.
async fn refusal(order: &mut Order) -> AcmeError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let name = authorization.identifier().to_string();
        // The state is that of before the challenge.
        let Ok(state) = authorization.refresh().await else { break };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return AcmeError::new(format!("the directory could not verify {name}: {problem}"));
        }
    }
    AcmeError::new("the directory did not accept the challenges, and gives no reason")
}

/// Answers to the challenges of one order. Dropping it ends them.
pub(crate) struct Challenges {
    proofs: Vec<Proof>,
    answers: Arc<Answers>,
    /// The HTTP server.
    server: Option<JoinHandle<()>>,
    certificates: ChallengeCertificates,
    set_challenges: SetChallenges,
}

impl Challenges {
    pub(crate) async fn start(context: &OrderContext) -> Result<Self, AcmeError> {
        let server = match context.config.challenge {
            ChallengeKind::TlsAlpn01 => None,
            ChallengeKind::Http01(address) => {
                let listener = listen(address).await?;
                Some(tokio::spawn(Arc::clone(&context.answers).serve(listener)))
            }
        };
        let (answers, set_challenges) = (Arc::clone(&context.answers), Arc::clone(&context.set_challenges));
        Ok(Self { proofs: Vec::new(), answers, server, certificates: HashMap::new(), set_challenges })
    }

    fn answer(&mut self, domain: &str, challenge: &ChallengeHandle<'_>) -> Result<(), AcmeError> {
        let answer = challenge.key_authorization();
        let proof = Proof {
            domain: domain.to_ascii_lowercase(),
            token: challenge.token.clone(),
            answer: answer.as_str().to_owned(),
            digest: answer.digest().as_ref().to_vec(),
        };
        self.put(&proof)?;
        self.proofs.push(proof);
        Ok(())
    }

    /// Answers a challenge, also one of another server's order.
    pub(crate) fn put(&mut self, proof: &Proof) -> Result<(), AcmeError> {
        if self.server.is_some() {
            return self.answers.set(&proof.token, &proof.answer);
        }
        self.certificates.insert(proof.domain.clone(), of_challenge(&proof.domain, &proof.digest)?);
        (self.set_challenges)(self.certificates.clone());
        Ok(())
    }
}

impl Drop for Challenges {
    fn drop(&mut self) {
        self.answers.clear();
        match &self.server {
            Some(server) => server.abort(),
            None => (self.set_challenges)(HashMap::new()),
        }
    }
}

/// Runs a method that waits, on a thread for such.
pub(crate) async fn waiting<T: Send + 'static>(
    shared: &Arc<dyn SharedOrders>,
    run: impl FnOnce(&dyn SharedOrders) -> Result<T, AcmeError> + Send + 'static,
) -> Result<T, AcmeError> {
    let shared = Arc::clone(shared);
    let done = tokio::task::spawn_blocking(move || run(&*shared)).await;
    done.unwrap_or_else(|_| {
        Err(AcmeError::new("the store of the servers cannot be used: a panic, which is a defect"))
    })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, AcmeError> {
    let hint = |why: std::io::Error| match why.kind() {
        std::io::ErrorKind::PermissionDenied => format!(
            "http_listen {address}: {why}; give the process CAP_NET_BIND_SERVICE, or another port that port 80 is forwarded to"
        ),
        _ => format!("http_listen {address}: {why}"),
    };
    TcpListener::bind(address).await.map_err(|why| AcmeError::new(hint(why)))
}

/// Failure of a step.
enum Failure {
    Library(Box<Error>),
    Own(AcmeError),
}

impl Failure {
    /// Type of the directory's problem document.
    fn kind(&self) -> Option<&str> {
        match self {
            Self::Library(error) => match &**error {
                Error::Api(problem) => problem.r#type.as_deref(),
                _ => None,
            },
            Self::Own(_) => None,
        }
    }

    fn text(self) -> AcmeError {
        match self {
            Self::Library(error) => AcmeError::new(match *error {
                Error::Api(problem) => format!("the directory refused: {problem}"),
                Error::Json(why) => format!("the directory's answer is not what RFC 8555 says: {why}"),
                other => other.to_string(),
            }),
            Self::Own(error) => error,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(Box::new(error))
    }
}

impl From<AcmeError> for Failure {
    fn from(error: AcmeError) -> Self {
        Self::Own(error)
    }
}

const RATE_LIMITED: &str = "urn:ietf:params:acme:error:rateLimited";
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
/// Least pause after a certificate was issued and could not be used.
const ISSUED_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// Least pause after a refusal because of the directory's limits, if it names none.
const RATE_LIMITED_PAUSE: Duration = Duration::from_secs(3600);
/// Intervals at which an order is looked at, and the time for it.
const POLL: RetryPolicy = RetryPolicy::new()
    .initial_delay(Duration::from_millis(500))
    .backoff(1.5)
    .timeout(Duration::from_secs(180));
