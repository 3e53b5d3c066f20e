"""Forms made of a JSON Schema: what a saga takes, or the value of a signal."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.admin.widgets import AdminTextareaWidget, AdminTextInputWidget

from celery_saga.core.strict_json import AmbiguousJson, read_json
from celery_saga.errors import InvalidPayload
from contrib_django.admin.schemas import Part, parts_of, skeleton

__all__ = ["JsonField", "SchemaForm", "add_refusal", "once"]

_INPUTS = {"date": "date", "time": "time", "date-time": "datetime-local", "email": "email", "uri": "url"}
_LONG = 200
_UNSET = "\x00unset"


class JsonField(forms.CharField):
    """A value written as JSON; empty: it is not given."""

    widget = AdminTextareaWidget(attrs={"rows": 4, "class": "vLargeTextField saga-json", "spellcheck": "false"})

    def to_python(self, value: Any) -> Any:
        """The value; `EMPTY` of the form where nothing was written."""
        text = super().to_python(value)
        if not text:
            return None
        try:
            return read_json(text)
        except AmbiguousJson as error:
            raise forms.ValidationError(f"This {error}.", code="json") from None


class SchemaForm(forms.Form):
    """Fields for the parts of an object's schema.

    Args:
        schema: of an object.
        blank: what an empty text field of a required text means: the empty text.
    """

    def __init__(self, schema: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.parts = parts_of(schema)
        for part in self.parts:
            self.fields[part.name] = _field(part)

    def clean(self) -> dict[str, Any]:
        """A required value that is JSON may be null, false or empty, but not left out."""
        cleaned: dict[str, Any] = super().clean() or {}
        for part in self.parts:
            raw = self.data.get(self.add_prefix(part.name))
            if part.required and part.kind == "json" and not (raw or "").strip() and part.name not in self.errors:
                self.add_error(part.name, "This field is required; write null for no value.")
        return cleaned

    @property
    def payload(self) -> dict[str, Any]:
        """The object that was filled in, once the form is valid; without what was left empty and need not be given."""
        found: dict[str, Any] = {}
        for part in self.parts:
            value = self._value(part)
            if value == _UNSET:
                continue
            place = found
            for name in part.path[:-1]:
                place = place.setdefault(name, {})
            place[part.path[-1]] = value
        return found

    def _value(self, part: Part) -> Any:
        value = self.cleaned_data.get(part.name)
        raw = self.data.get(self.add_prefix(part.name))
        if part.kind == "json":
            return value if (raw or "").strip() else _UNSET
        if part.kind == "boolean" and part.required and not part.nullable:
            return bool(value)
        if value in ("", None):
            if part.kind == "string" and part.required and not part.nullable:
                return ""
            return None if part.required and part.nullable else _UNSET
        if part.kind == "choice":
            return part.choices[int(value)]
        return value == "true" if part.kind == "boolean" else value


def once() -> forms.CharField:
    """A hidden field with a value of its own each time a form is shown: sent twice, a form has the same one twice."""
    return forms.CharField(required=False, max_length=40, widget=forms.HiddenInput, initial=lambda: uuid.uuid4().hex)


def add_refusal(form: forms.Form, error: InvalidPayload, inside: str = "") -> None:
    """Show a refusal at the field that it is about, else above the form.

    Args:
        inside: name of the field under which the refused value lies, where paths begin with another word.
    """
    path = (error.path or "").replace("['", ".").replace("']", "")
    names = sorted(form.fields, key=len, reverse=True)
    for name in names:
        if path == name or path.startswith((f"{name}.", f"{name}[")):
            form.add_error(name, str(error))
            return
    if inside and inside in form.fields:
        form.add_error(inside, str(error))
        return
    form.add_error(None, str(error))


def _field(part: Part) -> forms.Field:
    make = {"choice": _choice, "boolean": _boolean, "json": _json, "string": _text}.get(part.kind, _number)
    field = make(part)
    field.label = part.name
    told = part.schema.get("description")
    hints = [str(told)] if told else []
    if not part.required:
        hints.append("May be left empty.")
    elif part.nullable:
        hints.append("Empty means null.")
    field.help_text = " ".join([field.help_text, *hints]).strip()
    return field


def _choice(part: Part) -> forms.Field:
    shown = [(str(number), _shown(value)) for number, value in enumerate(part.choices)]
    is_must = part.required and not part.nullable
    choices = [("", "---------"), *shown] if not is_must or len(shown) > 1 else shown
    default = part.schema.get("default")
    initial = str(part.choices.index(default)) if default in part.choices else None
    return forms.ChoiceField(choices=choices, required=is_must, initial=initial)


def _boolean(part: Part) -> forms.Field:
    if part.required and not part.nullable:
        return forms.BooleanField(required=False)
    choices = [("", "---------"), ("true", "yes"), ("false", "no")]
    initial = {True: "true", False: "false"}.get(part.schema.get("default", ""))
    return forms.ChoiceField(choices=choices, required=False, initial=initial)


def _json(part: Part) -> forms.Field:
    begin = skeleton(part.schema)
    return JsonField(
        required=False,
        initial=json.dumps(begin, indent=2, ensure_ascii=False) if part.required and begin is not None else None,
        help_text="JSON.",
    )


def _text(part: Part) -> forms.Field:
    schema, form = part.schema, str(part.schema.get("format", ""))
    longest, least = schema.get("maxLength"), schema.get("minLength")
    if form in _INPUTS:
        widget: forms.Widget = forms.TextInput(attrs={"type": _INPUTS[form], "step": "any", "class": "vTextField"})
    elif schema.get("is_decimal") or form or (longest or _LONG) <= _LONG:
        widget = AdminTextInputWidget()
    else:
        widget = AdminTextareaWidget(attrs={"rows": 3})
    return forms.CharField(
        required=part.required and not part.nullable and bool(least or form),
        max_length=longest,
        min_length=least,
        strip=bool(form),
        widget=widget,
        initial=schema.get("default"),
    )


def _number(part: Part) -> forms.Field:
    schema = part.schema
    kind = forms.IntegerField if part.kind == "integer" else forms.FloatField
    return kind(
        required=part.required and not part.nullable,
        min_value=schema.get("minimum"),
        max_value=schema.get("maximum"),
        initial=schema.get("default"),
    )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
