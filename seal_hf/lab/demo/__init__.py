"""A page in the browser that shows what a saved task-net predicts. It needs the extra `demo` (Gradio), which is
imported only when a page is built.
"""
