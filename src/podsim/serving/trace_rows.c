/* Rows of request traces: lines of a CSV, and lines of flat JSON objects. Nothing is read past the end of the text. */
#include "native.h"
#include "serving/trace_rows.h"

enum { MISSING = 1, NO_NUMBER = 2, NEGATIVE = 3, NOT_WHOLE = 4, TOO_LARGE = 5, NO_OBJECT = 6 };
enum { TIME = 0, INPUT = 1, OUTPUT = 2, FIELDS = 3 };

struct Cell {
    const uint8_t *start;
    const uint8_t *end;
};

static struct Cell trimmed(const uint8_t *start, const uint8_t *end) {
    while (start < end && (*start == ' ' || *start == '\t' || *start == '"')) start++;
    while (end > start && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '"' || end[-1] == '\r')) end--;
    return (struct Cell){start, end};
}

static int is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

/* A decimal number; 0 if the cell is none. */
static int read_decimal(struct Cell cell, double *value) {
    const uint8_t *at = cell.start;
    int is_negative = at < cell.end && *at == '-', digits = 0, power = 0;
    double number = 0.0;
    if (at < cell.end && (*at == '-' || *at == '+')) at++;
    for (; at < cell.end && is_digit(*at); at++, digits++) number = number * 10 + (*at - '0');
    if (at < cell.end && *at == '.')
        for (at++; at < cell.end && is_digit(*at); at++, digits++, power--) number = number * 10 + (*at - '0');
    if (digits && at < cell.end && (*at == 'e' || *at == 'E')) {
        int exponent = 0, sign = 1, exponent_digits = 0;
        at++;
        if (at < cell.end && (*at == '-' || *at == '+')) sign = *at++ == '-' ? -1 : 1;
        for (; at < cell.end && is_digit(*at) && exponent_digits < 4; at++, exponent_digits++)
            exponent = exponent * 10 + (*at - '0');
        if (!exponent_digits) return 0;
        power += sign * exponent;
    }
    if (!digits || at != cell.end) return 0;
    if (power) number = power < 0 ? number / pow(10.0, -power) : number * pow(10.0, power);
    *value = is_negative ? -number : number;
    return isfinite(*value);
}

static int64_t two(const uint8_t *at) { return (at[0] - '0') * 10 + at[1] - '0'; }

/* Days since 1970-01-01 of a Gregorian date. */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
    int64_t y = month <= 2 ? year - 1 : year, era = floor_div(y, 400), of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

/* s since 1970 of "2023-11-16 18:17:03.9799600", with a T, a Z or an offset of hours too; 0 if the cell is none. */
static int read_date(struct Cell cell, double *value) {
    static const char pattern[] = "dddd-dd-dd dd:dd:dd";
    const uint8_t *at = cell.start;
    double fraction = 0.0, weight = 0.1, offset = 0.0;
    if (cell.end - at < 19) return 0;
    for (int i = 0; i < 19; i++) {
        int is_right = pattern[i] == 'd' ? is_digit(at[i]) : pattern[i] == ' ' ? at[i] == ' ' || at[i] == 'T' : at[i] == pattern[i];
        if (!is_right) return 0;
    }
    int64_t month = two(at + 5), day = two(at + 8), hour = two(at + 11), minute = two(at + 14), second = two(at + 17);
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return 0;
    int64_t days = days_since_1970(two(at) * 100 + two(at + 2), month, day);
    const uint8_t *rest = at + 19;
    if (rest < cell.end && *rest == '.')
        for (rest++; rest < cell.end && is_digit(*rest); rest++, weight /= 10) fraction += weight * (*rest - '0');
    if (rest < cell.end && *rest == 'Z') rest++;
    if (cell.end - rest >= 6 && (*rest == '+' || *rest == '-') && is_digit(rest[1]) && is_digit(rest[2]) && rest[3] == ':' &&
        is_digit(rest[4]) && is_digit(rest[5])) {
        offset = (*rest == '-' ? -1.0 : 1.0) * (double)(two(rest + 1) * 3600 + two(rest + 4) * 60);
        rest += 6;
    }
    *value = (double)(days * 86400 + hour * 3600 + minute * 60 + second) + fraction - offset;
    return rest == cell.end;
}

/* The problem of a field's cell, 0 if it has none; its value goes into the row. */
static int64_t put_field(const struct TraceText *t, const struct TraceRows *rows, int64_t row, int field, struct Cell cell) {
    double value = 0.0;
    if (cell.start >= cell.end) return MISSING;
    if (!read_decimal(cell, &value) && (field != TIME || !read_date(cell, &value))) return NO_NUMBER;
    if (value < 0) return NEGATIVE;
    if (field == TIME) {
        rows->time[row] = value;
        return 0;
    }
    if (value > t->most) return TOO_LARGE;
    if (value != floor(value)) return NOT_WHOLE;
    (field == INPUT ? rows->input : rows->output)[row] = (int64_t)value;
    return 0;
}

static int64_t bad_line(const struct TraceText *t, const struct TraceRows *rows, int64_t problem, int64_t field,
                        const uint8_t *start, const uint8_t *end) {
    rows->state[2] = problem;
    rows->state[3] = field;
    rows->state[4] = start - t->text;
    rows->state[5] = end - t->text;
    return problem;
}

static int is_empty(struct Cell line) { return line.start >= line.end; }

/* Rows of all whole lines of a text, as long as there is room. */
EXPORT int64_t read_csv_requests(const struct TraceText *t, const struct TraceRows *rows) {
    const uint8_t *at = t->text, *end = t->text + t->size;
    int64_t row = 0;
    while (at < end && row < t->room) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) break;
        if (!is_empty(trimmed(at, stop))) {
            struct Cell cells[FIELDS] = {{stop, stop}, {stop, stop}, {stop, stop}};
            const uint8_t *start = at;
            for (int64_t number = 0; start <= stop; number++) {
                const uint8_t *comma = start < stop ? memchr(start, ',', (size_t)(stop - start)) : NULL;
                if (!comma) comma = stop;
                for (int field = 0; field < FIELDS; field++)
                    if (t->column[field] == number) cells[field] = trimmed(start, comma);
                start = comma + 1;
            }
            for (int field = 0; field < FIELDS; field++) {
                int64_t problem = put_field(t, rows, row, field, cells[field]);
                if (problem) {
                    bad_line(t, rows, problem, field, at, stop);
                    rows->state[0] = at - t->text;
                    return row;
                }
            }
            row++;
        }
        at = stop + 1;
    }
    rows->state[0] = at - t->text;
    return row;
}

static const uint8_t *after_blanks(const uint8_t *at, const uint8_t *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r')) at++;
    return at;
}

/* The end of a JSON value, however deep; NULL if it has none on the line. */
static const uint8_t *after_value(const uint8_t *at, const uint8_t *end) {
    int64_t depth = 0;
    for (; at < end; at++) {
        if (*at == '"') {
            for (at++; at < end && *at != '"'; at++)
                if (*at == '\\') at++;
            if (at >= end) return NULL;
        } else if (*at == '[' || *at == '{') {
            depth++;
        } else if (*at == ']' || *at == '}') {
            if (!depth) return at;
            depth--;
        } else if (*at == ',' && !depth) {
            return at;
        }
    }
    return depth ? NULL : at;
}

/* The number of a key among the wanted ones, or -1. */
static int key_number(const struct TraceText *t, const uint8_t *start, const uint8_t *end) {
    const uint8_t *key = t->keys;
    for (int number = 0; number <= FIELDS; number++) {
        int64_t size = (int64_t)strlen((const char *)key);
        if (size == end - start && !memcmp(key, start, (size_t)size)) return number;
        key += size + 1;
    }
    return -1;
}

/* The ids of a JSON list of whole numbers: how many, -1 if it is none, -2 if there is no room. */
static int64_t read_blocks(const struct TraceText *t, const struct TraceRows *rows, int64_t used, struct Cell list) {
    int64_t count = 0;
    if (list.end - list.start < 2 || *list.start != '[' || list.end[-1] != ']') return -1;
    const uint8_t *at = list.start + 1, *stop = list.end - 1;
    if (is_empty(trimmed(at, stop))) return 0;
    while (at <= stop) {
        const uint8_t *comma = at < stop ? memchr(at, ',', (size_t)(stop - at)) : NULL;
        double value;
        if (!comma) comma = stop;
        if (!read_decimal(trimmed(at, comma), &value) || value != floor(value) || fabs(value) > 9e15) return -1;
        if (used + count >= t->block_room) return -2;
        rows->blocks[used + count++] = (int64_t)value;
        at = comma + 1;
    }
    return count;
}

/* One object of a line: 0, a problem, or -1 where there is no room for its blocks. `field` is the one with the problem. */
static int64_t read_object(const struct TraceText *t, const struct TraceRows *rows, int64_t row, struct Cell line, int64_t *field) {
    const uint8_t *at = line.start + 1, *end = line.end;
    int64_t seen = 0;
    rows->block_count[row] = 0;
    *field = -1;
    if (is_empty(line) || *line.start != '{' || end[-1] != '}') return NO_OBJECT;
    for (at = after_blanks(at, end); at < end && *at != '}'; at = after_blanks(at, end)) {
        if (*at != '"') return NO_OBJECT;
        const uint8_t *name = ++at;
        while (at < end && *at != '"') at += *at == '\\' ? 2 : 1;
        if (at >= end) return NO_OBJECT;
        int key = key_number(t, name, at);
        at = after_blanks(at + 1, end);
        if (at >= end || *at != ':') return NO_OBJECT;
        const uint8_t *start = after_blanks(at + 1, end);
        at = after_value(start, end);
        if (!at) return NO_OBJECT;
        struct Cell cell = trimmed(start, at);
        if (key == FIELDS) {
            int64_t count = read_blocks(t, rows, rows->state[1], cell);
            *field = FIELDS;
            if (count < 0) return count == -2 ? -1 : NO_NUMBER;
            rows->block_count[row] = count;
        } else if (key >= 0) {
            *field = key;
            int64_t problem = put_field(t, rows, row, key, cell);
            if (problem) return problem;
            seen |= 1 << key;
        }
        if (at < end && *at == ',') at++;
    }
    for (int key = 0; key < FIELDS; key++)
        if (!(seen & (1 << key))) {
            *field = key;
            return MISSING;
        }
    return 0;
}

/* Rows of all whole lines of a text, a flat JSON object each, as long as there is room. */
EXPORT int64_t read_json_requests(const struct TraceText *t, const struct TraceRows *rows) {
    const uint8_t *at = t->text, *end = t->text + t->size;
    int64_t row = 0;
    while (at < end && row < t->room) {
        const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) break;
        struct Cell line = {after_blanks(at, stop), stop};
        while (line.end > line.start && (line.end[-1] == '\r' || line.end[-1] == ' ')) line.end--;
        if (!is_empty(line)) {
            int64_t field, problem = read_object(t, rows, row, line, &field);
            if (problem < 0) break;
            if (problem) {
                bad_line(t, rows, problem, field, at, stop);
                break;
            }
            rows->state[1] += rows->block_count[row];
            row++;
        }
        at = stop + 1;
    }
    rows->state[0] = at - t->text;
    return row;
}
