// Package signing signs deliveries by Standard Webhooks, and stores the secrets.
//
// There is a default secret, and a topic can have its own. An overlap follows the
// replacement of a secret: deliveries carry the signatures of the new and the old one,
// so that receivers can change over at any time in it.
//
// Secrets are documents of the store, encrypted with a master key that the store never
// gets.
package signing
