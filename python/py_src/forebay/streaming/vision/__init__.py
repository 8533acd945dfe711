"""Pictures: classes, segmentation, detection."""
