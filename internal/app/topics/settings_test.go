package topics

import (
	"testing"

	"github.com/duehook/duehook/internal/testing/everyfield"
)

// Settings without a value are deleted, so a forgotten field would be lost.
func TestSettingsWithAnyFieldAreKept(t *testing.T) {
	for at, settings := range everyfield.Alone[Settings]() {
		if settings.Empty() {
			t.Errorf("settings with %s count as none", at)
		}
	}
	if none := new(Settings); !none.Empty() {
		t.Error("settings without a value count as some")
	}
}
