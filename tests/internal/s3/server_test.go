package s3

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lanceknn/lanceknn/tests/internal/pylance"
)

func TestServer_KnowsItsKeys(t *testing.T) {
	defer pylance.Stop()
	s := Start(t, "KEYA", "KEYB")
	py := pylance.Shared(t)
	args := func(key string) pylance.Args {
		return pylance.Args{"uri": s.URI("t.lance"), "storage_options": s.Options(key, "secret")}
	}
	require.ErrorContains(t, py.Call("describe", args("KEYA"), nil), "not found")
	require.Error(t, py.Call("describe", args("KEYC"), nil))
	require.Positive(t, s.Count("KEYC"))
	before := s.Count("KEYA")
	s.Revoke("KEYA")
	require.Error(t, py.Call("describe", args("KEYA"), nil))
	require.Greater(t, s.Count("KEYA"), before)
}
