"""What runs inside a user's own process: it describes arrays and speaks to a debugger.

Only the standard library and NumPy are imported, all imports are relative (the
package is loaded under another name in a program that has no npudbg), and this
module imports nothing: a program that never loads ONNX Runtime pays nothing.
"""
