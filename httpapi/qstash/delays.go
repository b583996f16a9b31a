package qstash

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"strconv"
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
	// The expressions are a part of Go's.
	tree, err := parser.ParseExpr(expression)
	if err != nil {
		return nil, errors.New("the expression cannot be read")
	}
	value, err := compiled(tree)
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
	operators = map[token.Token]func(a, b float64) float64{
		token.ADD: func(a, b float64) float64 { return a + b },
		token.SUB: func(a, b float64) float64 { return a - b },
		token.MUL: func(a, b float64) float64 { return a * b },
		token.QUO: func(a, b float64) float64 { return a / b },
		token.REM: math.Mod,
	}
	unary = map[string]func(float64) float64{
		"sqrt": math.Sqrt, "abs": math.Abs, "exp": math.Exp, "floor": math.Floor, "ceil": math.Ceil, "round": math.Round,
	}
	binary = map[string]func(a, b float64) float64{"pow": math.Pow, "min": math.Min, "max": math.Max}
)

func compiled(tree ast.Expr) (formula, error) {
	switch e := tree.(type) {
	case *ast.ParenExpr:
		return compiled(e.X)
	case *ast.BasicLit:
		n, err := strconv.ParseFloat(e.Value, 64)
		if err != nil || e.Kind != token.INT && e.Kind != token.FLOAT {
			return nil, fmt.Errorf("%s is not a number", e.Value)
		}
		return func(float64) float64 { return n }, nil
	case *ast.Ident:
		if e.Name != "retried" {
			return nil, fmt.Errorf("%s is unknown; the only variable is retried", e.Name)
		}
		return func(retried float64) float64 { return retried }, nil
	case *ast.UnaryExpr:
		x, err := compiled(e.X)
		if e.Op != token.SUB {
			err = fmt.Errorf("%s is not an operator", e.Op)
		}
		return func(retried float64) float64 { return -x(retried) }, err
	case *ast.BinaryExpr:
		operator, known := operators[e.Op]
		if !known {
			return nil, fmt.Errorf("%s is not an operator; there are + - * / %%", e.Op)
		}
		return applied(operator, e.X, e.Y)
	case *ast.CallExpr:
		return called(e)
	}
	return nil, errors.New("only numbers, retried, operators and functions are possible")
}

func applied(f func(a, b float64) float64, left, right ast.Expr) (formula, error) {
	a, err := compiled(left)
	if err != nil {
		return nil, err
	}
	b, err := compiled(right)
	return func(retried float64) float64 { return f(a(retried), b(retried)) }, err
}

func called(e *ast.CallExpr) (formula, error) {
	name, _ := e.Fun.(*ast.Ident)
	if name == nil {
		return nil, errors.New("only functions can be called")
	}
	if f, known := binary[name.Name]; known && len(e.Args) == 2 {
		return applied(f, e.Args[0], e.Args[1])
	}
	if f, known := unary[name.Name]; known && len(e.Args) == 1 {
		x, err := compiled(e.Args[0])
		return func(retried float64) float64 { return f(x(retried)) }, err
	}
	return nil, fmt.Errorf("%s with %d arguments is unknown; there are pow, min and max of two, and sqrt, abs, exp, floor, ceil and round of one", name.Name, len(e.Args))
}
