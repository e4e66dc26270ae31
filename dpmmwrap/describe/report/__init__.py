"""A page to look at: what a fit has found, as one HTML file that needs no network."""

from dpmmwrap.describe.report.page import render, write_report
from dpmmwrap.describe.report.subject import Subject

__all__ = ["Subject", "render", "write_report"]
