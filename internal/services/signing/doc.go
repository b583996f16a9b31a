// Package signing signs deliveries as Standard Webhooks asks, so that receivers
// can tell ours from forged ones, and keeps the secrets that it takes.
//
// There is a default secret, and a topic may have one of its own. A secret is
// replaced with an overlap, during which deliveries carry the signatures of
// both the new and the old one, so that receivers can change over at leisure.
//
// Secrets are kept as documents of the store, sealed with a master key that
// the store never sees.
package signing
