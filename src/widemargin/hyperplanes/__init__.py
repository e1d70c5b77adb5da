"""Machines that part classes by hyperplanes, in the space of the samples or a kernel.

:mod:`widemargin.linear` and :mod:`widemargin.svm` name the classifiers.
"""
