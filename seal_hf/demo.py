"""A page in the browser that shows what a saved task-net predicts: `seal-hf demo`, or a Space on the Hub.

It needs the extra `demo` (Gradio), which is imported only when a page is built.
"""

from .lab.demo.program import build, launch

__all__ = ["build", "launch"]
