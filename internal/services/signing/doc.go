// Package signing signs deliveries by Standard Webhooks, and stores the secrets.
//
// There is a default secret, and a topic can have its own. An overlap follows the
// replacement of a secret: deliveries carry the signatures of the new and the old one,
// so that receivers can change over at any time in it.
//
// Secrets are sealed documents of the store, in a documents.Keyring.
package signing
