"""A page to look at: what a fit has found, as one HTML file that needs no network."""

from dpmmwrap.report.page import render, write_report
from dpmmwrap.report.subject import Subject

__all__ = ["Subject", "render", "write_report"]
