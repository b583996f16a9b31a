// Package testenv gives tests what they need around duehook: a store in memory, private Redis
// servers, a TCP proxy that loses replies, the example receivers, and waiting
// for a condition. Only tests import it.
package testenv
