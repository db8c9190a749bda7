package config

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// autoWord asks for the derived default; the value of such a leaf is zero until derive fills it.
const autoWord = "auto"

// maxName is the longest name in bytes, as the database checks it too.
const maxName = 128

var (
	namespaceForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)
	wordForm      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	numberForm    = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,17})$`)
)

// fromText reads the leaf's value from the text of a variable, a default or a scalar. problem is empty or says what is wrong
// with the text, in words that follow the key; it never holds a secret.
func (l *leaf) fromText(s string) (v any, problem string) {
	if l.auto != "" && s == autoWord {
		return l.zero(), ""
	}
	switch l.typ {
	case typeSecret:
		return Secret(s), checkText(s)
	case typeString:
		return l.textFrom(s)
	case typeInt:
		return l.intFrom(s)
	case typeDuration:
		return l.durationFrom(s)
	case typeBool:
		if s != "true" && s != "false" {
			return nil, show(s) + " is neither true nor false"
		}
		return s == "true", ""
	case typeQueues:
		return queuesFrom(s)
	case typeLimits:
		return limitsFrom(s)
	case typeFleet:
		return queueLimitsFrom(s)
	case typeHandlers:
		return handlersFrom(s)
	case typeBytes:
		return bytesFrom(s, l.min, l.max)
	case typeSchedule:
		return schedulesFrom(l, s)
	default:
		return l.wordsFrom(strings.Split(s, ","))
	}
}

func (l *leaf) textFrom(s string) (any, string) {
	if problem := checkText(s); problem != "" {
		return nil, problem
	}
	if l.oneOf != nil {
		return s, l.checkWord(s)
	}
	switch l.form {
	case "namespace":
		return s, checkNamespace(s)
	case "word":
		if !wordForm.MatchString(s) {
			return nil, show(s) + " is not a word of letters, digits, dots, dashes and underscores, at most 64"
		}
	case "listen":
		return listenFrom(s)
	}
	return s, ""
}

func (l *leaf) checkWord(s string) string {
	if slices.Contains(l.oneOf, s) {
		return ""
	}
	return fmt.Sprintf("%s is not one of %s%s", show(s), strings.Join(l.oneOf, ", "), didYouMean(Nearest(s, l.oneOf)))
}

func (l *leaf) wordsFrom(items []string) (any, string) {
	words := []string{}
	for _, item := range items {
		item = strings.TrimSpace(item)
		problem := ""
		if l.form == "variables" {
			problem = checkVariable(item)
		} else {
			problem = l.checkWord(item)
		}
		if problem != "" {
			return nil, problem
		}
		if slices.Contains(words, item) {
			return nil, show(item) + " is given twice"
		}
		words = append(words, item)
	}
	return words, ""
}

func (l *leaf) intFrom(s string) (any, string) {
	n, problem := parseInt(s)
	if problem != "" {
		return nil, problem
	}
	least, _ := strconv.Atoi(l.min)
	most, _ := strconv.Atoi(l.max)
	if n < least || n > most {
		return nil, fmt.Sprintf("%d is out of range: %s to %s", n, l.min, l.max) + l.orAuto()
	}
	return n, ""
}

func (l *leaf) durationFrom(s string) (any, string) {
	d, err := parseDuration(s)
	if err != nil {
		return nil, fmt.Sprintf("%s %v; a right one is %s", show(s), err, l.example()) + l.orAuto()
	}
	least, _ := parseDuration(l.min)
	most, _ := parseDuration(l.max)
	if d < least || d > most {
		return nil, fmt.Sprintf("%s is out of range: %s to %s", show(s), l.min, l.max) + l.orAuto()
	}
	return d, ""
}

// example returns a value that the leaf takes.
func (l *leaf) example() string {
	switch {
	case l.def != "" && l.def != autoWord:
		return strconv.Quote(l.def)
	case l.typ == typeDuration:
		return `"5s"`
	default:
		return strconv.Quote(l.min)
	}
}

func (l *leaf) orAuto() string {
	if l.auto == "" {
		return ""
	}
	return " (or auto: " + l.auto + ")"
}

// format writes a value of the leaf as fromText reads it, a secret as [redacted].
func (l *leaf) format(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return formatDuration(v)
	case []Queue:
		return formatQueues(v)
	case []Limit:
		return formatLimits(v)
	case []QueueLimit:
		return formatQueueLimits(v)
	case []Handler:
		return formatHandlers(v)
	case []Schedule:
		return formatSchedules(v)
	case []string:
		return strings.Join(v, ",")
	case string:
		if v == "" && l.form == "listen" {
			return "off"
		}
		return v
	default:
		return fmt.Sprint(v)
	}
}

func parseInt(s string) (int, string) {
	if !numberForm.MatchString(s) {
		return 0, show(s) + " is not a whole number in decimal"
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, show(s) + " is too large"
	}
	return n, ""
}

// checkText refuses what no setting can mean: nothing at all, and NUL, which ends strings in Postgres and the kernel.
func checkText(s string) string {
	switch {
	case s == "":
		return "is empty; leave the key out instead"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case strings.ContainsRune(s, 0):
		return "contains a NUL"
	}
	return ""
}

func checkNamespace(s string) string {
	if !namespaceForm.MatchString(s) {
		return show(s) + " is not a namespace: a letter, then letters, digits and underscores, all small, 31 at most"
	}
	if strings.HasPrefix(s, "pg_") || s == "information_schema" {
		return show(s) + " belongs to Postgres"
	}
	return ""
}

// checkName refuses what the database would refuse as a queue's name, and control characters, which no log shows as they are.
func checkName(s string) string {
	if problem := checkText(s); problem != "" {
		return problem
	}
	if len(s) > maxName {
		return fmt.Sprintf("is %d bytes long, more than %d", len(s), maxName)
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return show(s) + " contains a control character"
	}
	return ""
}

// listenFrom reads host:port, or off. The port must be a number: a name would be looked up differently on each host.
func listenFrom(s string) (any, string) {
	if s == "off" {
		return "", ""
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return nil, show(s) + " is not host:port (or off)"
	}
	n, problem := parseInt(port)
	if problem != "" || n < 0 || n > 65535 {
		return nil, show(s) + " has a port that is not a number from 0 to 65535"
	}
	return s, ""
}
