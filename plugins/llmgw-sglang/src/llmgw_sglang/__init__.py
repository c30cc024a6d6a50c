"""The SGLang engine driver of llmgw."""
