package binding

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const redacted = "***"

// secrets are texts that must not appear in an error, longest first, so that one that contains another is replaced whole.
type secrets []string

var secretWords = []string{"key", "secret", "token", "pass", "credential", "auth", "bearer", "sas", "signature", "private", "connection_string"}

func looksSecret(key string) bool {
	key = strings.ToLower(key)
	return key == "sig" || slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(key, word) })
}

func isSwitch(value string) bool { return value == "true" || value == "false" }

// newSecrets collects the secrets of options and those in the URI itself (user:password@, ?sig=).
func newSecrets(uri string, options ...map[string]string) secrets {
	found := map[string]bool{}
	add := func(value string) {
		// Shorter values and switches ("true") hide nothing, and replacing them would garble messages.
		if len(value) <= 3 || isSwitch(value) {
			return
		}
		quoted, _ := json.Marshal(value)
		// As messages may show it: plain, inside a URL, inside JSON, inside Rust's debug output.
		inJSON, inDebug := string(quoted[1:len(quoted)-1]), strings.Trim(strconv.Quote(value), `"`)
		for _, form := range []string{value, url.QueryEscape(value), url.PathEscape(value), inJSON, inDebug} {
			found[form] = true
		}
	}
	for _, set := range options {
		for key, value := range set {
			if looksSecret(key) {
				add(value)
			}
		}
	}
	if u, err := url.Parse(uri); err == nil {
		if password, ok := u.User.Password(); ok {
			add(password)
			add(u.User.Username())
		}
		for key, values := range u.Query() {
			if looksSecret(key) {
				for _, value := range values {
					add(value)
				}
			}
		}
	}
	all := slices.Collect(maps.Keys(found))
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return all
}

func (s secrets) redact(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	return text
}

func redactOptions(options map[string]string) map[string]string {
	out := maps.Clone(options)
	for key, value := range out {
		if looksSecret(key) && !isSwitch(value) {
			out[key] = redacted
		}
	}
	return out
}
