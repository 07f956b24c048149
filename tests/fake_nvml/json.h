/* A JSON text as a tree: just enough for the state files of this folder, which we write ourselves. */
#ifndef FAKE_NVML_JSON_H
#define FAKE_NVML_JSON_H

#include <stdlib.h>
#include <string.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind;

typedef struct json {
    json_kind kind;
    char *key;   /* the name of this member, when it is one */
    char *text;
    double number;
    int count;
    struct json *first, *next;
} json;

json *json_value(const char **at);
void json_free(json *v);
json *json_get(json *box, const char *key);     /* a member; NULL when it is not there, or null */
json *json_at(json *box, unsigned index);

#endif
