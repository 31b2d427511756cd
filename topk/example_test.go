package topk_test

import (
	"fmt"

	"github.com/lanceknn/lanceknn/topk"
)

func ExampleMerge() {
	first := []topk.Candidate{{Query: 0, Distance: 0.1, RowID: 4}, {Query: 0, Distance: 0.7, RowID: 9}}
	second := []topk.Candidate{{Query: 0, Distance: 0.3, RowID: 2}, {Query: 0, Distance: 0.7, RowID: 9}}
	for _, c := range topk.Merge(3, first, second) {
		fmt.Println(c.RowID, c.Distance)
	}
	// Output:
	// 4 0.1
	// 2 0.3
	// 9 0.7
}

func ExampleMerger() {
	m := topk.NewMerger(1)
	defer m.Release()
	m.Push(topk.Candidate{Query: 0, Distance: 2, RowID: 1})
	m.Push(topk.Candidate{Query: 1, Distance: 5, RowID: 1})
	m.Push(topk.Candidate{Query: 0, Distance: 1, RowID: 8})
	fmt.Println(m.Append(nil))
	// Output: [{0 1 8} {1 5 1}]
}
