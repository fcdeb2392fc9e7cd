// Channels, rules and deliveries of notifications, as the API says them.
import type { components } from '../../lib/api/schema';
import type { Word } from '../../lib/words';

type Schemas = components['schemas'];

export type Channel = Schemas['NotifyChannel'];
export type Delivery = Schemas['NotifyDelivery'];
export type Rule = Schemas['NotifyRule'];
export type Security = Schemas['MailSecurity'];
export type Severity = Schemas['Severity'];
export type Template = Schemas['WebhookTemplate'];
export type Tested = Schemas['NotifyChannelTested'];

export const SECURITIES: readonly { security: Security; text: string; port: number }[] = [
  { security: 'starttls', text: 'STARTTLS', port: 587 },
  { security: 'tls', text: 'TLS', port: 465 },
  { security: 'none', text: 'None, for a mail server on this machine', port: 25 },
];

export const TEMPLATES: readonly { template: Template; text: string }[] = [
  { template: 'generic', text: 'JSON with every field' },
  { template: 'slack', text: 'Slack, Mattermost, Rocket.Chat' },
  { template: 'teams', text: 'Microsoft Teams' },
  { template: 'ntfy', text: 'ntfy' },
];

export const SEVERITIES: readonly { severity: Severity; text: string }[] = [
  { severity: 'error', text: 'Errors' },
  { severity: 'warning', text: 'Warnings and errors' },
  { severity: 'info', text: 'Everything' },
];

export function channelWord(channel: Channel): Word {
  if (channel.trouble) return { text: 'Failing', tone: 'error' };
  return channel.rules === 0 ? { text: 'No rule', tone: 'warning' } : { text: 'OK', tone: 'ok' };
}

export function deliveryWord(state: Delivery['state']): Word {
  const words: Record<Delivery['state'], Word> = {
    queued: { text: 'Waiting', tone: 'info' },
    delivered: { text: 'Delivered', tone: 'ok' },
    failed: { text: 'Failed', tone: 'error' },
  };
  return words[state];
}

/** Where a channel delivers to, in a few words. */
export function target({ mail, webhook }: Channel): string {
  return mail ? mail.to.join(', ') : (webhook?.server ?? '');
}
