// Requests to the admin API. The token stays in this tab of the browser, and goes into a header only.

const KEY = 'ringway-token';
let token = sessionStorage.getItem(KEY) ?? '';
let onUnauthorized = () => {};

/** Refusal of the server, or failure to reach it (status 0). */
export class Refused extends Error {
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

export function setToken(text) {
  token = text;
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

export const hasToken = () => token !== '';

/** Sets the function that is called when the server requires a token. */
export function whenUnauthorized(call) {
  onUnauthorized = call;
}

/** Sends a request; returns the JSON of the response. */
export async function request(method, path, { body, signal } = {}) {
  const headers = { Accept: 'application/json' };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  const options = { method, headers, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' };
  if (body !== undefined) options.body = JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Refused(0, 'The server does not answer.');
  }
  const json = await response.json().catch(() => ({}));
  if (response.status === 401) onUnauthorized();
  if (!response.ok) throw new Refused(response.status, json.error ?? `status ${response.status}`, json);
  return json;
}

export const get = (path, signal) => request('GET', path, { signal });

/** Query string of the entries that have a value. */
export function query(entries) {
  const set = Object.entries(entries).filter(([, value]) => value !== undefined && value !== null && value !== '');
  return set.length ? `?${new URLSearchParams(set)}` : '';
}
