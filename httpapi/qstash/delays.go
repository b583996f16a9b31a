package qstash

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"text/scanner"
	"time"
)

const (
	longestDelay = 24 * time.Hour
	// maxDelayExpression bounds an expression, in bytes, and with it how deep it nests.
	maxDelayExpression = 512
)

// delays returns the delay before each retry by an expression of milliseconds; retried counts the
// retries before. Without one, it is the default of the original: e^(2.5·n) seconds.
func delays(expression string) (func(retried int) time.Duration, error) {
	if expression == "" {
		return func(retried int) time.Duration { return delayOf(1000 * math.Exp(2.5*float64(retried+1))) }, nil
	}
	if len(expression) > maxDelayExpression {
		return nil, fmt.Errorf("the expression has more than %d characters", maxDelayExpression)
	}
	value, err := compiled(expression)
	if err != nil {
		return nil, err
	}
	return func(retried int) time.Duration { return delayOf(value(float64(retried))) }, nil
}

// delayOf is a delay of milliseconds, which the domain has from 1 ms.
func delayOf(ms float64) time.Duration {
	if math.IsNaN(ms) || ms < 1 {
		return time.Millisecond
	}
	return time.Duration(min(ms, float64(longestDelay.Milliseconds()))) * time.Millisecond
}

type formula func(retried float64) float64

var (
	sums     = map[rune]func(a, b float64) float64{'+': func(a, b float64) float64 { return a + b }, '-': func(a, b float64) float64 { return a - b }}
	products = map[rune]func(a, b float64) float64{'*': func(a, b float64) float64 { return a * b }, '/': func(a, b float64) float64 { return a / b }, '%': math.Mod}
	unary    = map[string]func(float64) float64{
		"sqrt": math.Sqrt, "abs": math.Abs, "exp": math.Exp, "floor": math.Floor, "ceil": math.Ceil, "round": math.Round,
	}
	binary = map[string]func(a, b float64) float64{"pow": math.Pow, "min": math.Min, "max": math.Max}
)

// reader reads an expression, and keeps its first error.
type reader struct {
	scanner.Scanner
	next rune // the token that is not read yet
	err  error
}

func compiled(expression string) (formula, error) {
	var r reader
	r.Init(strings.NewReader(expression))
	r.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanFloats
	r.Error = func(_ *scanner.Scanner, message string) { r.fail("%s", message) }
	r.next = r.Scan()
	f := r.sum()
	r.expect(scanner.EOF)
	return f, r.err
}

func (r *reader) fail(format string, values ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, values...)
	}
	r.next = scanner.EOF
}

// take reads the next token if it is this one.
func (r *reader) take(token rune) bool {
	if r.next != token {
		return false
	}
	r.next = r.Scan()
	return true
}

func (r *reader) expect(token rune) {
	if r.err == nil && !r.take(token) {
		r.fail("%q is not possible there; there are numbers, retried, + - * / %%, functions and parentheses", r.TokenText())
	}
}

func (r *reader) sum() formula     { return r.chain(sums, r.product) }
func (r *reader) product() formula { return r.chain(products, r.factor) }

// chain reads parts with operators between them.
func (r *reader) chain(operators map[rune]func(a, b float64) float64, part func() formula) formula {
	a := part()
	for operators[r.next] != nil {
		f := operators[r.next]
		r.next = r.Scan()
		a = applied(f, a, part())
	}
	return a
}

func applied(f func(a, b float64) float64, a, b formula) formula {
	return func(retried float64) float64 { return f(a(retried), b(retried)) }
}

func (r *reader) factor() formula {
	text := r.TokenText()
	switch {
	case r.take('-'):
		x := r.factor()
		return func(retried float64) float64 { return -x(retried) }
	case r.take('('):
		x := r.sum()
		r.expect(')')
		return x
	case r.take(scanner.Int), r.take(scanner.Float):
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			r.fail("%s is not a number", text)
		}
		return func(float64) float64 { return n }
	case !r.take(scanner.Ident):
		r.expect(scanner.Ident)
		return nil
	case r.take('('):
		return r.call(text)
	case text != "retried":
		r.fail("%s is unknown; the only variable is retried", text)
	}
	return func(retried float64) float64 { return retried }
}

// call reads the arguments of a function.
func (r *reader) call(name string) formula {
	arguments := []formula{r.sum()}
	for r.take(',') {
		arguments = append(arguments, r.sum())
	}
	r.expect(')')
	if f := binary[name]; f != nil && len(arguments) == 2 {
		return applied(f, arguments[0], arguments[1])
	}
	if f := unary[name]; f != nil && len(arguments) == 1 {
		return func(retried float64) float64 { return f(arguments[0](retried)) }
	}
	r.fail("%s with %d arguments is unknown; there are pow, min and max of two, and sqrt, abs, exp, floor, ceil and round of one", name, len(arguments))
	return nil
}
