// Package calendars keeps named lists of dates that many schedules leave out.
//
// A schedule refers to a calendar by its name, so a change of a calendar holds for all its
// schedules at once. No schedule has to be written: a date that is taken out stays excepted
// for the occurrences before the change, which would be late otherwise.
package calendars
