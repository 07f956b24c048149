#include "json.h"

#include <ctype.h>

static void json_space(const char **at) {
    while (isspace((unsigned char)**at)) (*at)++;
}

static char *json_string(const char **at) {
    const char *from = ++*at;
    char *out, *to;
    while (**at && **at != '"') *at += **at == '\\' && (*at)[1] ? 2 : 1;
    out = to = malloc((size_t)(*at - from) + 1);
    for (; from < *at; from++) {
        if (*from == '\\') from++, *to++ = *from == 'n' ? '\n' : *from;
        else *to++ = *from;
    }
    *to = 0;
    if (**at) ++*at;
    return out;
}

static json *json_members(const char **at, json *box, char end) {
    json **tail = &box->first;
    ++*at;
    for (;;) {
        char *key = NULL;
        json_space(at);
        if (**at == ',') { ++*at; continue; }
        if (!**at || **at == end) break;
        if (box->kind == JSON_OBJECT) {
            if (**at != '"') break;
            key = json_string(at);
            json_space(at);
            if (**at == ':') ++*at;
        }
        *tail = json_value(at);
        (*tail)->key = key;
        tail = &(*tail)->next;
        box->count++;
    }
    if (**at) ++*at;
    return box;
}

json *json_value(const char **at) {
    json *v = calloc(1, sizeof *v);
    char *after;
    json_space(at);
    switch (**at) {
    case '{': v->kind = JSON_OBJECT; return json_members(at, v, '}');
    case '[': v->kind = JSON_LIST; return json_members(at, v, ']');
    case '"': v->kind = JSON_TEXT; v->text = json_string(at); return v;
    case 't': v->kind = JSON_BOOL; v->number = 1; *at += 4; return v;
    case 'f': v->kind = JSON_BOOL; *at += 5; return v;
    case 'n': *at += 4; return v;
    }
    v->kind = JSON_NUMBER;
    v->number = strtod(*at, &after);
    *at = after > *at ? after : *at + 1;
    return v;
}

void json_free(json *v) {
    while (v) {
        json *next = v->next;
        json_free(v->first);
        free(v->key);
        free(v->text);
        free(v);
        v = next;
    }
}

json *json_get(json *box, const char *key) {
    json *v = box && box->kind == JSON_OBJECT ? box->first : NULL;
    for (; v; v = v->next)
        if (!strcmp(v->key, key)) return v->kind == JSON_NULL ? NULL : v;
    return NULL;
}

json *json_at(json *box, unsigned index) {
    json *v = box && box->kind == JSON_LIST ? box->first : NULL;
    while (v && index--) v = v->next;
    return v;
}
