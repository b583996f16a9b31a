package operations

import (
	"encoding/json"

	"github.com/duehook/duehook/store"
)

// Restart has the operation in a document list its jobs from the start again, as it must in another store: a cursor belongs to a store. It
// changes no job twice. Other documents stay as they are.
func Restart(d *store.Document) {
	if d.Kind != documentKind {
		return
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(d.Data, &members) != nil {
		return
	}
	delete(members, "cursor")
	delete(members, "owner")
	if data, err := json.Marshal(members); err == nil {
		d.Data = data
	}
}
