// Package dashboard serves the pages that show a duehook in a browser. They are
// built from web/ by `make web`, and what was built is committed in dist/, so
// that building duehook needs nothing but Go.
//
// The pages hold no data and no secrets: a script in them asks the API, with
// the key of the user. So nobody is asked for a key here.
package dashboard
