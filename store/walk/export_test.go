package walk

import (
	"encoding/json"

	"github.com/duehook/duehook/store"
)

// ReadAsWritten writes a line, and reads it.
func ReadAsWritten(r *store.Restored) (store.Restored, error) {
	text, err := json.Marshal(recordOf(r))
	if err != nil {
		return store.Restored{}, err
	}
	var is record
	if err := json.Unmarshal(text, &is); err != nil {
		return store.Restored{}, err
	}
	return is.restored()
}
