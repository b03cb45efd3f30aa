// The phone of a tab. `window.report` prints an event; `window.phone` has the commands.
import JsSIP from 'jssip';

const report = (...words) => window.report(...words);
const messages = [];
let agent;
let session;

/// Keeps what the socket sends and receives.
class TracedSocket extends JsSIP.WebSocketInterface {
  send(message) {
    messages.push(`-> ${message}`);
    return super.send(message);
  }

  _onMessage(event) {
    messages.push(`<- ${event.data}`);
    return super._onMessage(event);
  }
}

function follow(started, originator) {
  session = started;
  const mine = (event) => (...details) => started === session && event(...details);
  started.on('accepted', mine(() => report('accepted')));
  started.on('confirmed', mine(() => report('confirmed')));
  started.on('hold', mine((data) => report('hold', data.originator)));
  started.on('unhold', mine((data) => report('resume', data.originator)));
  started.on('ended', mine((data) => report('ended', data.originator, data.cause)));
  started.on('failed', mine((data) => report('failed', data.originator, data.cause)));
  for (const step of ['getusermediafailed', 'peerconnection:createofferfailed',
    'peerconnection:createanswerfailed', 'peerconnection:setlocaldescriptionfailed',
    'peerconnection:setremotedescriptionfailed']) {
    started.on(step, (error) => report('fault', step, String(error)));
  }
  const heard = (connection) => {
    connection.addEventListener('track', (event) => {
      document.getElementById('heard').srcObject = event.streams[0] ?? new MediaStream([event.track]);
    });
    connection.addEventListener('connectionstatechange', () => report('media', connection.connectionState));
  };
  if (started.connection) heard(started.connection);
  else started.on('peerconnection', (data) => heard(data.peerconnection));
  if (originator === 'remote') report('incoming', started.remote_identity.uri.toString());
}

/// No STUN server, so that all candidates are those of this machine.
const OPTIONS = { mediaConstraints: { audio: true, video: false }, pcConfig: { iceServers: [] } };

/// Tries every 100 ms, for ten seconds: JsSIP refuses a change while the one before is not complete.
function change(begins, attempts = 100) {
  if (begins()) return;
  if (attempts === 0) report('fault', 'change', 'the call does not permit it');
  else setTimeout(change, 100, begins, attempts - 1);
}

async function figures() {
  const found = { connection: session.connection.connectionState };
  const kinds = {};
  (await session.connection.getStats()).forEach((entry) => (kinds[entry.type] ??= []).push(entry));
  for (const entry of kinds['outbound-rtp'] ?? []) found.sent = entry.packetsSent;
  for (const entry of kinds['inbound-rtp'] ?? []) {
    Object.assign(found, {
      received: entry.packetsReceived, lost: entry.packetsLost, energy: entry.totalAudioEnergy,
      samples: entry.totalSamplesReceived, concealed: entry.concealedSamples,
    });
    found.codec = kinds.codec?.find((codec) => codec.id === entry.codecId)?.mimeType;
  }
  for (const entry of kinds.transport ?? []) {
    Object.assign(found, { dtls: entry.dtlsState, ice: entry.iceState, role: entry.iceRole, cipher: entry.srtpCipher });
  }
  return found;
}

window.phone = {
  open({ name, url, password }) {
    agent = new JsSIP.UA({
      sockets: [new TracedSocket(url)],
      uri: `sip:${name}@example.org`,
      password,
      register: true,
      session_timers: false,
    });
    agent.on('connected', () => report('connected'));
    agent.on('disconnected', (data) => report('disconnected', data.reason ?? ''));
    agent.on('registered', () => report('registered'));
    agent.on('registrationFailed', (data) => report('unregistered', data.cause));
    agent.on('newRTCSession', (data) => follow(data.session, data.originator));
    agent.start();
  },
  call(uri) {
    agent.call(uri, OPTIONS);
  },
  answer() {
    session.answer(OPTIONS);
  },
  hold() {
    change(() => session.hold());
  },
  resume() {
    change(() => session.unhold());
  },
  hangup() {
    session.terminate();
  },
  async figures() {
    report('figures', JSON.stringify(await figures()));
  },
  trace() {
    for (const message of messages) report('message', JSON.stringify(message));
    report('traced');
  },
};
