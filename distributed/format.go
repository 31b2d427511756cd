package distributed

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/lanceknn/lanceknn/binding"
)

// formatFragments writes ascending ids as ranges: "0-3, 7".
func formatFragments(ids []uint32) string {
	if len(ids) == 0 {
		return "none"
	}
	const shown = 12
	var parts []string
	for i := 0; i < len(ids); {
		j := i
		for j+1 < len(ids) && ids[j+1] == ids[j]+1 {
			j++
		}
		if len(parts) == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(ids)-i))
			break
		}
		if i == j {
			parts = append(parts, fmt.Sprint(ids[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", ids[i], ids[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

func formatRange(first, n int) string {
	if n == 1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, first+n-1)
}

// joinSegments writes at most n ids, by their first group: eight digits tell the segments of one index apart.
func joinSegments(ids []binding.SegmentID, n int) string {
	var b strings.Builder
	for i, id := range ids {
		if i == n {
			fmt.Fprintf(&b, " and %d more", len(ids)-n)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(id.String()[:8])
	}
	return b.String()
}

// publicURI leaves out what may be secret: the user part and the query of a URL. A path without a scheme is not a URL.
func publicURI(uri string) string {
	if !strings.Contains(uri, "://") {
		return uri
	}
	u, err := url.Parse(uri)
	if err != nil {
		scheme, _, _ := strings.Cut(uri, "://")
		return scheme + "://..."
	}
	u.User, u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = nil, "", "", "", false
	return u.String()
}

func plural[N int | uint64](n N, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
