// Writes src/api/tests/data/quantities.tsv: what Kubernetes' own code makes of some two thousand quantities.
//
//	cd e2e/oracle/quantities && go run . > ../../../src/api/tests/data/quantities.tsv
//
// The output depends on this file and the version of k8s.io/apimachinery in go.mod alone.
//
// Columns; all but the first two are empty for an error:
//
//	input      the text as a JSON string, so that any character is safe in the table
//	result     ok or error
//	canonical  the canonical form. Not String(): that returns the input itself where the parser took it for canonical,
//	           which "+1" and "1.500" are not
//	nano       the exact value in 10^-9 units
//	ceil       the value in whole units, rounded away from zero as Value() promises
//	milli      the value in 10^-3 units, rounded away from zero as MilliValue() promises
//	Value()    what that function returned; garbage where it overflows, and off by one for some negative fractions
//	MilliValue()
//	stored     the canonical form once rounded to milli units, as the API server does for requests and limits
//
// nano, ceil and milli are clamped to the range of a signed 128-bit integer.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"math/big"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

var (
	suffixes = []string{
		"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
		"e0", "e1", "e2", "e3", "E3", "e-1", "E-2", "e-3", "e+6", "e-9", "e-10", "e18", "e19",
	}
	signs = []string{"", "+", "-"}

	// At the edges of the parser's branches: no digits, zeros, 18 digits (its fast path), 2^63-1 (its cap), 1024.
	numbers = []string{
		"", ".", "0", "00", "0.", ".0", "0.0", "1", "01", "1.", "1.0", "1.000", ".5", "0.5", "1.5", "1.500", "10", "100",
		"999", "1000", "1023", "1024", "1025", "1536", "2048", "1000000", "1048576", "0.127", "0.001", "0.0001",
		"0.000000001", "0.0000000001", "0.0000000019", "0.9999999999", "99.9999999999", "1.1", "1.0000000001",
		"123456789.123456789", "12345678.9012345678",
		"99999999999999999", "999999999999999999", "9999999999999999999", "123456789012345678", "1234567890123456789",
		"9223372036854775806", "9223372036854775807", "9223372036854775808", "9223372036854775807.1",
		"100000000000000000000", "1000000000000000000000", "0.000000000000000000000", "0.123456789012345678901",
	}

	// What a person may write, and what reads like a quantity but is none. Exponents near -2^31, which 1e2147483648 wraps
	// to, are left out: apimachinery works out 10^(2^31) for them and does not return.
	picked = []string{
		"500m", "250m", "1.5", "2e0", "1e3", "1E", "1Ei", "+1", "-1", "100n", "1u", "512Mi", "1.5Gi", "0.5Gi", "0.5Ki",
		"1e400", "-1e400", "1.5e400", "123e-400", "1e-100000", "1e99999", "12345678901234567890e400",
		"1e2147483647", "10e2147483647", "100e2147483646", "1.5e2147483647", "1e4294967296",
		"1e4294967299", "1.5e-2147483648", "1e9223372036854775807", "1e-9223372036854775808", "-1e4294967295",
		"1e9223372036854775808", "1e-9223372036854775809", "1e99999999999999999999999",
		"1000E", "10000E", "1001E", "999E", "1000000E", "1e21", "1e22", "1500P", "0.001E", "0.0000000000000000001E",
		"7Ei", "7.9Ei", "8Ei", "7.99999999999999999999Ei", "8191Pi", "8192Pi", "8388607Ti", "8388608Ti", "9007199254740991Ki",
		"9007199254740992Ki", "-8Ei", "-9007199254740993Ki", "0.1Ki", "-0.3Ki", "-1.5Ki", "-0.0001Ki", "1.0009765625Ki",
		"1023.9999999999Ki", "0.9765625Ki", "0.99999999999999Ki", "1.1Mi", "1.00000095367431640625Mi", "1024Ei", "0.001Ei",
		"0.00000000000000000000000001Ei", "1024Ki", "1048576Ki", "1024Mi", "1536Ki", "-1024Ki", "-1023Ki", "12Ki", "8Ki",
		"0.1n", "-0.1n", "1.1n", "-1.1n", "0.9999999999n", "999.9999999991n", "1n", "1000n", "1001n", "1000001n", "-999u",
		"1e-9", "1e-10", "-1e-10", "15e-10", "999999999e-18", "340282366920938463463374607431768211455",
		"170141183460469231731687303715", "170141183460469231731687303716", "-170141183460469231731687303715.884105727",
		"170141183460469231731687303715.884105727", "170141183460469231731687303715.884105728", "-0", "+0", "-0.0Ki", "0Ei",
		"-", "+", "+.", "-.", "e5", "E5", "E", "e-9", "e-10", ".e-10", "0e-10", "Pi", ".Ei", "+Ei", "-Ti", ".Ki",

		"", " ", "abc", " 1", "1 ", "1 Gi", "1Gi ", "\t1", "1\n", "1\r\n", "1\x00", "1kk", "1.2.3", "1..2", "..", "0x10",
		"1_000", "１", "1１", "1,5", "1'000", "1e", "1e+", "1e-", "1E+", "1ee5", "1e5e", "1e5k", "1ke5", "1e1.5", "1e 5",
		"1e--5", "1e+-5", "++1", "--1", "+-1", "-+1", "1-", "1+", "1-5", "1+5", "1k5", "1k-5", "1Ki5", "1K", "1ki", "1KI",
		"1g", "1gi", "1GB", "1Gb", "1GiB", "1B", "1b", "1mi", "1t", "1p", "1Zi", "1Z", "1Y", "1µ", "1μ", "1U", "1N", "1mm",
		"1i", "1iK", "1Kik", "1nn", "1ein", "Infinity", "inf", "NaN", "nan", "null", "true", "½", "1½", "٣", "1e٣", "−1", "1–2",
		"1\u00a0Gi", "1\u200b", "\ufeff1", "é", "1é", "🚀", "1🚀", "\"1\"", "'1'", "1;", "1%", "50%", "$1", "1/2", "1:2", "(1)",
		"1e99999999999999999999k", "m5", "m1", "Kii", "i", "ii", "n.5", "k1", ".5.", "5..", ".Gi.", "1.e", "1.e5", ".5e5",
		"1.Gi", "1.Ei", "0x1p3", "0b1", "0o7", "1f", "1L", "1d", "1l",
	}
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	seen := map[string]bool{}
	emit := func(input string) {
		if seen[input] {
			return
		}
		seen[input] = true
		fmt.Fprintln(out, row(input))
	}

	fmt.Fprintln(out, "input\tresult\tcanonical\tnano\tceil\tmilli\tValue()\tMilliValue()\tstored")
	for _, input := range picked {
		emit(input)
	}
	// Every number meets every suffix; the signs take turns, or this would be thrice as long without telling more.
	for i, number := range numbers {
		for j, suffix := range suffixes {
			emit(signs[(i+j)%3*(i+2*j)%3] + number + suffix)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		emit(walk(random))
	}
	for range 150 {
		emit(damaged(random))
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

// walk derives a quantity from the grammar in apimachinery's documentation.
func walk(random *rand.Rand) string {
	digits := func(most int) string {
		var text strings.Builder
		for range random.IntN(most + 1) {
			// Zeros and nines are where carrying and trimming happen.
			text.WriteByte("00012345678999"[random.IntN(14)])
		}
		return text.String()
	}
	number := digits(22)
	if random.IntN(2) == 0 {
		number += "." + digits(14)
	}
	suffix := suffixes[random.IntN(len(suffixes))]
	if random.IntN(4) == 0 {
		suffix = string("eE"[random.IntN(2)]) + signs[random.IntN(3)] + strconv.Itoa(random.IntN(60))
	}
	return signs[random.IntN(3)] + number + suffix
}

// damaged is a quantity with one character too many; it may be a quantity still.
func damaged(random *rand.Rand) string {
	text := walk(random)
	at := random.IntN(len(text) + 1)
	return text[:at] + string("eEinumkKMGTP.+-_ ,xBa0"[random.IntN(22)]) + text[at:]
}

func row(input string) string {
	quoted, err := json.Marshal(input)
	if err != nil {
		log.Fatal(err)
	}
	quantity, err := resource.ParseQuantity(input)
	if err != nil {
		return string(quoted) + "\terror\t\t\t\t\t\t\t"
	}
	canonical := canonicalForm(quantity)
	stored := quantity.DeepCopy()
	stored.RoundUp(resource.Milli)

	// The comparison of desired with live objects rests on this: what is sent in canonical form comes back unchanged.
	again, err := resource.ParseQuantity(canonical)
	if err != nil || again.String() != canonical {
		log.Printf("%q: the canonical form %q does not stay as it is: %v, %v", input, canonical, again.String(), err)
	}
	return strings.Join([]string{
		string(quoted), "ok", canonical,
		rounded(quantity, resource.Nano), rounded(quantity, 0), rounded(quantity, resource.Milli),
		strconv.FormatInt(quantity.Value(), 10), strconv.FormatInt(quantity.MilliValue(), 10),
		canonicalForm(stored),
	}, "\t")
}

func canonicalForm(quantity resource.Quantity) string {
	number, suffix := quantity.CanonicalizeBytes(nil)
	return string(number) + string(suffix)
}

// rounded is the value in units of 10^scale, rounded away from zero, clamped to 128 bits.
func rounded(quantity resource.Quantity, scale resource.Scale) string {
	most := new(big.Int).Lsh(big.NewInt(1), 127)
	most.Sub(most, big.NewInt(1))
	least := new(big.Int).Not(most)

	copied := quantity.DeepCopy()
	value := copied.AsDec()
	number := new(big.Int)
	switch {
	case value.Sign() == 0:
	case value.Scale() < -100:
		// Not worked out: it may have two billion digits.
		number.Lsh(big.NewInt(int64(value.Sign())), 1000)
	default:
		number.Set(new(inf.Dec).Round(value, inf.Scale(-scale), inf.RoundUp).UnscaledBig())
	}
	if number.Cmp(most) > 0 {
		number = most
	}
	if number.Cmp(least) < 0 {
		number = least
	}
	return number.String()
}
