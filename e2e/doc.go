// Package e2e holds the tests that run duehook as its users do: real
// processes, a real Redis and a real receiver on loopback, with kills and
// outages at bad moments. Acknowledged jobs are compared with what
// arrived. E2E_LONG=1 runs larger sizes, E2E_SEED=n another order of events.
package e2e
