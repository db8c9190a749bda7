// Package cadence says when a schedule is due: every so often, or by a cron expression in a time zone. It is arithmetic
// alone: it reads no clock, and knows neither stores nor jobs.
//
// # Cron
//
// An expression has five fields (minute, hour, day of the month, month, day of the week) or six (a second before them), or is one
// of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly. A field is * or a list of numbers, names (jan, fri)
// and ranges, with steps: 0,30 or 9-17 or */5 or fri-mon. Sunday is 0 and 7. Of the two fields of the day either is enough when both
// are restricted, as cron has always had it. A date that does not exist in any year, such as 30 February, is refused.
//
// # Changes of the clock
//
// The local times that an expression names are turned into instants like this:
//
//   - A local time that is left out when clocks go forward is due at the change itself, the first instant after the gap. What
//     falls together there is due once.
//   - A local time that comes twice when clocks go back is due the first time alone, if the expression names fixed times. If its
//     second, minute or hour begins with *, it means an interval and is due both times: it goes on in real time.
//
// Whatever the size of the change: half an hour on Lord Howe, a day that Samoa left out.
package cadence
