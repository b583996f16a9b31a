// Package hostile holds what tests set against deliveries: a zoo of servers
// that misbehave, a corpus of addresses that must not be called, and a name
// server that lies. Only tests import it.
package hostile
